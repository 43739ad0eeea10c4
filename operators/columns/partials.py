"""Partial states: what aggregates make of the records of one batch, a row per key, sent instead of the records.

A batch of partial states has the columns of the key, the words of each state, and the hashes; that it has states tells
it from a batch of records. It is made in a table that serves one batch after the other. Keys stay in it, and what they
had of an earlier batch is over when a batch first has them, so that nothing is cleared in between.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from operators.columns.aggregating import CompiledAggregates, UpdateLoop, apply_batch
from operators.columns.combining import Combined
from operators.columns.module_cache import load
from routing.bins import Bins
from routing.columns.adaptive import CombineHeuristic
from routing.columns.compiled import compiling, kernel
from routing.columns.dictionary import DictionaryEncoder
from routing.columns.keys import HASHES, RESERVED, KeyColumns, Keys, read_only
from routing.columns.memory import Array, address_of, empty, load_u64, store
from routing.columns.partition import WHOLE
from routing.columns.state import words_of_column
from routing.columns.table.dirty_entries import DirtyEntries
from routing.columns.table.layout import PAD, STATE, WIDTH, words_in
from routing.columns.table.table import Table
from routing.columns.take import take

STATES = RESERVED + "states"
"""A column of partial states, which no batch of records has."""

KEPT_BYTES_MAX = 2**23
"""A table that has grown beyond this is begun anew: it is to be near the processor."""

SERIAL_MAX = 2**31
"""So many batches can be told apart by the marks of entries."""

SHARE_MAX = 0.25
"""At most so many keys per row are combined, where a state is no larger than a record.

With words between two processes of one machine it costs as much as it saves at about a sixth. Between machines, where
to send takes longer, it pays with more.
"""


class Partials:
    """Partial states of some aggregates: made of batches before they are sent, and merged where they arrive."""

    def __init__(
        self, combined: Combined, compiled: CompiledAggregates, key: KeyColumns, worth: CombineHeuristic | None = None
    ) -> None:
        """What is worth it follows from how large states and records are, unless it is told."""
        self._compiled = compiled
        self._key = key
        self._words = combined.state_words - 1
        states = pa.field(STATES, pa.binary(8 * self._words))
        self._schema = pa.schema([*key.schema, states, pa.field(HASHES, pa.uint64())])
        as_they_are = combined.schema.append(self._schema.field(HASHES))
        self._worth = worth or CombineHeuristic(
            SHARE_MAX * min(1, _words_per_row(as_they_are) / _words_per_row(self._schema))
        )
        self._table = Table(Bins(1), combined.state_words)
        self._serial = 0
        self._encoder = DictionaryEncoder.of(key)
        with compiling:
            self._module: Any = load(combined.merging())
            self._warm_up()

    def combine(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The partial states of a batch; or the batch, if that is better sent as it is."""
        rows = len(batch)
        tried = self._worth.rows_to_try(rows)
        if not tried:
            return batch
        self._begin()
        attempt = _Attempt(self._compiled, self._table, self._serial, self._worth.keys_max(rows, rows))
        if tried < rows:
            some = batch.slice(0, tried)
            if not attempt.go_on(some, self._key.keys(some), self._worth.keys_max(tried, rows)):
                self._worth.did_not_pay()
                return batch
        keys = self._keys(batch)
        if not attempt.go_on(batch, keys, attempt.keys_max):
            self._worth.did_not_pay()
            if len(keys.codes):
                return batch
            return batch.append_column(self._schema.field(HASHES), pa.array(keys.hashes))
        self._worth.paid()
        return self._partials(batch, keys, attempt)

    @staticmethod
    def are_in(batch: pa.RecordBatch) -> bool:
        """Whether a batch has partial states, rather than records."""
        return STATES in batch.schema.names

    def merge(self, table: Table, batch: pa.RecordBatch, keys: Keys, dirty: DirtyEntries) -> None:
        """Merge partial states into `table`, and record its dirty entries."""
        states = read_only(words_of_column(batch.column(STATES)).reshape(-1))
        apply_batch(batch, UpdateLoop(self._module.merge, keys, (states,)), table, dirty)

    def _keys(self, batch: pa.RecordBatch) -> Keys:
        """The keys of a batch; each of them once, if they are strings that recur."""
        if self._encoder is not None:
            encoded = self._encoder.encode(batch, WHOLE)
            if encoded is not None:
                return self._key.keys_of_dictionary(encoded[0])
        return self._key.keys(batch)

    def _begin(self) -> None:
        """Have what is in the table be over."""
        self._serial += 1
        if self._table.nbytes > KEPT_BYTES_MAX or self._serial == SERIAL_MAX:
            self._table.close()
            self._serial = 1

    def _partials(self, batch: pa.RecordBatch, keys: Keys, attempt: _Attempt) -> pa.RecordBatch:
        """What was made of a batch: keys in the order in which they first came."""
        entries, rows = attempt.entries, attempt.rows
        states = empty(len(entries) * self._words, np.uint64)
        _take_states(self._table.view(), entries, self._words, states)
        columns = [take(batch.column(name), rows) for name in self._key.names]
        kind = self._schema.field(STATES).type
        columns.append(pa.Array.from_buffers(kind, len(entries), [None, pa.py_buffer(states)]))
        columns.append(pa.array(keys.hashes_at(rows)))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _warm_up(self) -> None:
        """Compile now, before there are records that wait for it."""
        fields = [self._compiled.schema.field(name) for name in self._compiled.columns]
        batch = pa.RecordBatch.from_pylist([dict.fromkeys(self._compiled.columns)] * 2, schema=pa.schema(fields))
        keys, attempt = self._key.keys(batch), _Attempt(self._compiled, self._table, serial=1, keys_max=1)
        assert attempt.go_on(batch, keys, 1)
        made = self._partials(batch, keys, attempt)
        self.merge(Table(Bins(1), self._table.state_words), made, self._key.keys(made), DirtyEntries())
        take(pa.array([""]), attempt.rows)  # which Arrow does for the null that was tried
        self._table.close()


class _Attempt:
    """To combine one batch, with at most so many keys."""

    def __init__(self, compiled: CompiledAggregates, table: Table, serial: int, keys_max: int) -> None:
        self.keys_max = keys_max
        self._compiled = compiled
        self._table = table
        self._serial = serial
        self._entries, self._rows = np.empty(keys_max, np.int64), np.empty(keys_max, np.int64)
        self._progress = np.zeros(2, np.int64)
        self._done = 0

    def go_on(self, batch: pa.RecordBatch, keys: Keys, keys_max: int) -> bool:
        """Go on with what a batch has more than the one before; whether that was possible with so many keys.

        It is not if a sum exceeds its bits, either: with those of other batches it may not.
        """
        loop = self._compiled.loop(self._compiled.records(batch, keys))
        entries, rows, progress = self._entries[:keys_max], self._rows[:keys_max], self._progress
        try:
            while (done := loop(self._table, self._done, entries, self._serial, progress, rows)) < len(batch):
                if progress[1] == keys_max:
                    return False
                self._done = done
                self._table.grow()
        except OverflowError:
            return False
        self._table.advance_rehash(len(batch) - self._done)
        self._done = done
        return True

    @property
    def entries(self) -> Array:
        """Those of the keys, in the order in which they first came."""
        return self._entries[: self._progress[1]]

    @property
    def rows(self) -> Array:
        """Where each key first came."""
        return self._rows[: self._progress[1]]


@kernel
def _take_states(view, entries, words, states):
    """Copy the first words of the states of entries."""
    at, stride, to = address_of(view.entries) + 8 * (PAD + STATE), 8 * view.meta[WIDTH], address_of(states)
    for row in range(len(entries)):
        state = at + stride * entries[row]
        for word in range(words):
            store(to, load_u64(state + 8 * word))
            to += 8


def _words_per_row(schema: pa.Schema) -> int:
    """How much a row takes, about: a string as much as two numbers."""
    return sum(
        words_in(kind) if pa.types.is_fixed_size_binary(kind) else 1 if pa.types.is_primitive(kind) else 2
        for kind in schema.types
    )
