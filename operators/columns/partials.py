"""Partial aggregation before the exchange (a combiner): a batch's records become partial states, a row per key.

A batch of partial states has the columns of the key, the words of each state, and the hashes; the column of states
tells it from a batch of records. It is made in a table that is reused: keys stay, and a state is reset when its key
first occurs in a batch, so that nothing is cleared in between. F calls `combine` before it divides a batch; the owner's
logic calls `merge`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from framework.errors import ProtocolError
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
from routing.columns.table.layout import PAD, STATE, WIDTH, TableView, words_in
from routing.columns.table.table import Table
from routing.columns.take import take

STATES = RESERVED + "states"
"""The column of partial states."""

KEPT_BYTES_MAX = 2**23
"""A table beyond this size is replaced by an empty one, so that it stays within the cache."""

SERIAL_MAX = 2**31
"""The number of batches that the marks of entries can distinguish."""

SHARE_MAX = 0.25
"""Combining pays up to this many keys per row, where a state is no larger than a record.

With words, between two processes of one machine, it breaks even at about a sixth; between machines, where sending takes
longer, it pays beyond that.
"""


class Partials:
    """The partial states of some aggregates: made from batches before these are sent, merged where they arrive."""

    def __init__(
        self,
        combined: Combined,
        compiled: CompiledAggregates,
        key: KeyColumns,
        heuristic: CombineHeuristic | None = None,
    ) -> None:
        """Without a `heuristic`, the share of keys that pays follows from the sizes of states and records."""
        self._compiled = compiled
        self._key = key
        self._words = combined.state_words - 1
        states = pa.field(STATES, pa.binary(8 * self._words))
        self._schema = pa.schema([*key.schema, states, pa.field(HASHES, pa.uint64())])
        uncombined = combined.schema.append(self._schema.field(HASHES))
        self._heuristic = heuristic or CombineHeuristic(
            SHARE_MAX * min(1, _words_per_row(uncombined) / _words_per_row(self._schema))
        )
        self._table = Table(Bins(1), combined.state_words)
        self._serial = 0
        self._encoder = DictionaryEncoder.of(key)
        with compiling:
            self._module: Any = load(combined.merging())
            self._warm_up()

    def combine(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The partial states of a batch; or the batch itself, if combining it does not pay."""
        rows = len(batch)
        tried = self._heuristic.rows_to_try(rows)
        if not tried:
            return batch
        self._next_serial()
        attempt = _Attempt(self._compiled, self._table, self._serial, self._heuristic.keys_max(rows, rows))
        if tried < rows:
            some = batch.slice(0, tried)
            if not attempt.resume(some, self._key.keys(some), self._heuristic.keys_max(tried, rows)):
                self._heuristic.did_not_pay()
                return batch
        keys = self._keys(batch)
        if not attempt.resume(batch, keys, attempt.keys_max):
            self._heuristic.did_not_pay()
            if len(keys.codes):
                return batch
            return batch.append_column(self._schema.field(HASHES), pa.array(keys.hashes))
        self._heuristic.paid()
        return self._partials(batch, keys, attempt)

    @staticmethod
    def are_in(batch: pa.RecordBatch) -> bool:
        """Whether a batch has partial states, rather than records."""
        return STATES in batch.schema.names

    def merge(self, table: Table, batch: pa.RecordBatch, keys: Keys, dirty: DirtyEntries) -> None:
        """Merge partial states into `table`, and record its dirty entries."""
        column = batch.column(STATES)
        if column.type != self._schema.field(STATES).type or column.null_count:
            raise ProtocolError(f"partial states of {8 * self._words} bytes came as {column.type}, or null")
        states = read_only(words_of_column(column).reshape(-1))
        apply_batch(batch, UpdateLoop(self._module.merge, keys, (states,)), table, dirty)

    def _keys(self, batch: pa.RecordBatch) -> Keys:
        """The keys of a batch, dictionary-encoded if that pays."""
        if self._encoder is not None:
            encoded = self._encoder.encode(batch, WHOLE)
            if encoded is not None:
                return self._key.keys_of_dictionary(encoded[0])
        return self._key.keys(batch)

    def _next_serial(self) -> None:
        """Invalidate the states in the table: they have the serial of an earlier batch."""
        self._serial += 1
        if self._table.nbytes > KEPT_BYTES_MAX or self._serial == SERIAL_MAX:
            self._table.close()
            self._serial = 1

    def _partials(self, batch: pa.RecordBatch, keys: Keys, attempt: _Attempt) -> pa.RecordBatch:
        """The batch of partial states, keys in the order of their first rows."""
        entries, rows = attempt.entries, attempt.rows
        states = empty(len(entries) * self._words, np.uint64)
        _take_states(self._table.view(), entries, self._words, states)
        columns = [take(batch.column(name), rows) for name in self._key.names]
        kind = self._schema.field(STATES).type
        columns.append(pa.Array.from_buffers(kind, len(entries), [None, pa.py_buffer(states)]))
        columns.append(pa.array(keys.hashes_at(rows)))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _warm_up(self) -> None:
        """Compile now, before records wait for it."""
        fields = [self._compiled.schema.field(name) for name in self._compiled.columns]
        batch = pa.RecordBatch.from_pylist([dict.fromkeys(self._compiled.columns)] * 2, schema=pa.schema(fields))
        keys, attempt = self._key.keys(batch), _Attempt(self._compiled, self._table, serial=1, keys_max=1)
        assert attempt.resume(batch, keys, 1)
        made = self._partials(batch, keys, attempt)
        self.merge(Table(Bins(1), self._table.state_words), made, self._key.keys(made), DirtyEntries())
        take(pa.array([""]), attempt.rows)  # the kernel for strings without nulls
        self._table.close()


class _Attempt:
    """Combines one batch, a sample of it first, unless it has too many keys."""

    def __init__(self, compiled: CompiledAggregates, table: Table, serial: int, keys_max: int) -> None:
        self.keys_max = keys_max
        self._compiled = compiled
        self._table = table
        self._serial = serial
        self._entries, self._rows = np.empty(keys_max, np.int64), np.empty(keys_max, np.int64)
        self._progress = np.zeros(2, np.int64)
        self._done = 0

    def resume(self, batch: pa.RecordBatch, keys: Keys, keys_max: int) -> bool:
        """Combine the rows of a batch behind those done before; False if that takes more than `keys_max` keys.

        False, too, if a sum of the batch overflows: the total, with other batches, may not.
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
        """The entries of the keys, in the order of their first rows."""
        return self._entries[: self._progress[1]]

    @property
    def rows(self) -> Array:
        """The first row of each key."""
        return self._rows[: self._progress[1]]


@kernel
def _take_states(view: TableView, entries: Array, words: int, states: Array) -> None:
    """Copy the first words of the states of entries."""
    at, stride, to = address_of(view.entries) + 8 * (PAD + STATE), 8 * view.meta[WIDTH], address_of(states)
    for row in range(len(entries)):
        state = at + stride * entries[row]
        for word in range(words):
            store(to, load_u64(state + 8 * word))
            to += 8


def _words_per_row(schema: pa.Schema) -> int:
    """An estimate of a row's size, a string counted as two words."""
    return sum(
        words_in(kind) if pa.types.is_fixed_size_binary(kind) else 1 if pa.types.is_primitive(kind) else 2
        for kind in schema.types
    )
