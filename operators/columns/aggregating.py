"""Aggregates compiled for columns: runs the generated loop over batches, and reads results from a table's states.

The compiled code serves any number of tables and knows nothing of epochs: a table's `DirtyEntries` tell which entries
have changed in one. Its source is `combining`'s; drivers are `stateful_aggregate`, `windowing` and `partials`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numba.core.errors import NumbaError

from framework.error_context import attach_record
from operators.columns.combining import Combined
from operators.columns.loop import Field, numbers_of
from operators.columns.module_cache import is_new, load
from routing.bins import Bins
from routing.columns.compiled import compiling
from routing.columns.keys import RESERVED, KeyColumn, KeyColumns, Keys, nulls_of, read_only
from routing.columns.memory import Array, empty
from routing.columns.table.dirty_entries import DirtyEntries
from routing.columns.table.table import Table
from routing.columns.take import decode

_NO_ROWS = np.zeros(0, np.int64)
_NO_NULLS = read_only(np.zeros(0, np.bool_))

_UNTRACKED = DirtyEntries(serial=0, capacity=0)


@dataclass(frozen=True, slots=True)
class Records:
    """What aggregates read of a batch: keys, values, and a mask of those that are null, empty if none is."""

    batch: pa.RecordBatch
    keys: Keys
    values: tuple[Array, ...]
    nulls: tuple[Array, ...]

    def slice(self, start: int, end: int) -> Records:
        """A slice of them, without a copy."""
        return Records(
            self.batch.slice(start, end - start),
            self.keys.slice(start, end),
            tuple(one[start:end] for one in self.values),
            tuple(one[start:end] for one in self.nulls),
        )


@dataclass(frozen=True, slots=True)
class UpdateLoop:
    """A compiled loop, bound to its arguments of one batch."""

    function: Any
    keys: Keys
    values: tuple[Array, ...]
    outs: tuple[Array, ...] = ()

    def __call__(
        self, table: Table, first: int, dirty: Array, serial: int, progress: Array, first_rows: Array = _NO_ROWS
    ) -> int:
        """Run from row `first` on; return the row that lacks room, in the table or in `dirty`, or the number of rows.

        With `first_rows`, the state of an entry that becomes dirty is reset, and its row is stored there.
        """
        inputs = (self.keys.arguments(), (), self.values, (), self.outs)
        stopped: int = self.function(table.view(), first, *inputs, dirty, first_rows, serial, progress)
        return stopped


def apply_batch(batch: pa.RecordBatch, loop: UpdateLoop, table: Table, dirty: DirtyEntries) -> None:
    """Run a loop over a whole batch; where it stops for lack of room, grow and resume."""
    progress, first, serial = np.array([0, dirty.count]), 0, dirty.serial
    try:
        while (first := loop(table, first, dirty.entries, serial, progress)) < len(batch):
            if serial and progress[1] == len(dirty.entries):
                dirty.grow()
            else:
                table.grow()
    except NumbaError:
        raise
    except Exception as error:
        [row] = batch.slice(int(progress[0]), 1).to_pylist()
        attach_record(error, {name: value for name, value in row.items() if not name.startswith(RESERVED)})
        raise
    table.advance_rehash(len(batch))
    if serial:
        dirty.count = int(progress[1])


class CompiledAggregates:
    """Aggregates for keys and values of given types: they return results per record, or record dirty entries."""

    def __init__(self, combined: Combined, key: KeyColumns, log: Callable[[str], None] = lambda _: None) -> None:
        """`log` is called before a compilation, which takes seconds."""
        self._combined = combined
        self._key = key
        self._fields = [Field(field.name, field.type) for field in combined.results]
        self._nullable = combined.can_be_null
        self._reads = [_reader(combined.schema.field(column), of) for column, of in combined.inputs]
        self.schema = combined.schema
        self.state = combined.state
        self.state_words = combined.state_words
        self.output = pa.schema([*key.schema, *combined.results])
        with compiling:
            text = combined.source()
            if is_new(text):
                log("compiling for columns, once: this takes some seconds")
            self._module: Any = load(text)
            self._warm_up()

    @property
    def columns(self) -> list[str]:
        """The columns that are read: those of the key, and those of values."""
        return list(dict.fromkeys([*self._key.names, *self._combined.columns]))

    def records(self, batch: pa.RecordBatch, keys: Keys) -> Records:
        """What is read of a batch that has these keys."""
        columns = [batch.column(name) for name in self._combined.columns]
        return Records(
            batch,
            keys,
            tuple(read(batch) for read in self._reads),
            tuple(nulls_of(column) if column.null_count else _NO_NULLS for column in columns),
        )

    def apply(self, table: Table, records: Records, dirty: DirtyEntries | None) -> None:
        """Apply records to `table`, and record its dirty entries, if there is an argument for them."""
        self._run(table, records, (), dirty or _UNTRACKED)

    def apply_each(self, table: Table, records: Records) -> pa.RecordBatch:
        """Apply records to `table`; return the results after each record."""
        batch = records.batch
        outs = self._allocate(len(batch), [len(mask) > 0 for mask in records.nulls])
        self._run(table, records, outs, _UNTRACKED)
        keyed = [decode(batch.column(column.name), column.type) for column in self._key.columns]
        return pa.RecordBatch.from_arrays([*keyed, *self._arrays(outs)], schema=self.output)

    def results(self, table: Table, entries: Array) -> list[pa.Array]:
        """The output columns for entries of a table: their keys, and their results."""
        outs = self._allocate(len(entries), [True] * len(self._combined.columns))
        self._module.results(table.view(), entries, outs)
        return [*self._key.decode(*table.gather(entries)), *self._arrays(outs)]

    def loop(self, records: Records, outs: tuple[Array, ...] = ()) -> UpdateLoop:
        """The loop over records."""
        return UpdateLoop(self._module.apply, records.keys, (*records.values, *records.nulls), outs)

    def _run(self, table: Table, records: Records, outs: tuple[Array, ...], dirty: DirtyEntries) -> None:
        apply_batch(records.batch, self.loop(records, outs), table, dirty)

    def _allocate(self, rows: int, some_null: Sequence[bool]) -> tuple[Array, ...]:
        """Arrays for results, and null masks for those that may be null."""
        missing = [np.zeros(rows if some_null[index] else 0, np.bool_) for index in self._nullable]
        return *(empty(rows, field.dtype) for field in self._fields), *missing

    def _arrays(self, outs: Sequence[Array]) -> list[pa.Array]:
        columns, arrays = self._combined.columns, []
        missing_of = dict(zip(self._nullable, outs[len(self._fields) :], strict=True))
        for aggregate, out, field in zip(self._combined.aggregates.values(), outs, self._fields, strict=False):
            missing = None
            if aggregate.column is not None and not aggregate.is_count:
                missing = missing_of[columns.index(aggregate.column)]
            array = pa.array(out, mask=missing if missing is not None and missing.any() else None)
            arrays.append(array if array.type == field.type else array.cast(field.type))
        return arrays

    def _warm_up(self) -> None:
        """Compile now, before records wait for it."""
        fields = {name: self._combined.schema.field(name) for name in self.columns}
        empty = pa.RecordBatch.from_pylist([], schema=pa.schema(fields.values()))
        records = self.records(empty, self._key.keys(empty))
        table = Table(Bins(1), self.state_words)
        if self._combined.per_record:
            self.apply_each(table, records)
        else:
            self.apply(table, records, DirtyEntries())
            self.results(table, np.zeros(0, np.int64))


def _reader(field: pa.Field, of: str) -> Callable[[pa.RecordBatch], Array]:
    """A function from a batch to the numbers of a column, or to the hashes that its values have as keys."""
    if of == "numbers":
        return lambda batch: numbers_of(batch.column(field.name))
    key = KeyColumn.of(field)
    return lambda batch: read_only(key.hashes(key.to_stored(batch.column(field.name))))
