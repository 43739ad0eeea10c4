"""Aggregates compiled for columns: they are kept in whatever table they are given, and their results taken from it.

What is compiled knows nothing of epochs: which entries of a table have changed in one is in its `DirtyEntries`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numba.core.errors import NumbaError

from operators.columns.combining import Combined
from operators.columns.loop import Field
from operators.columns.module_cache import is_new, load
from operators.error_context import blame
from routing.bins import Bins
from routing.columns.compiled import compiling
from routing.columns.keys import RESERVED, KeyColumn, KeyColumns, Keys, nulls_of, sealed
from routing.columns.memory import Array, empty
from routing.columns.table.dirty_entries import DirtyEntries
from routing.columns.table.table import Table
from routing.columns.take import decode

_NOT_ANEW = np.zeros(0, np.int64)
_NO_NULLS = sealed(np.zeros(0, np.bool_))


_UNNOTED = DirtyEntries(serial=0, room=0)


@dataclass(frozen=True, slots=True)
class Records:
    """What aggregates look at of a batch: keys, values, and which of these are null, or an empty array if none is."""

    batch: pa.RecordBatch
    keys: Keys
    values: tuple[Array, ...]
    nulls: tuple[Array, ...]

    def slice(self, start: int, end: int) -> Records:
        """Some of them, in place."""
        return Records(
            self.batch.slice(start, end - start),
            self.keys.slice(start, end),
            tuple(one[start:end] for one in self.values),
            tuple(one[start:end] for one in self.nulls),
        )


@dataclass(frozen=True, slots=True)
class UpdateLoop:
    """A compiled loop, and what it is given of a batch."""

    function: Any
    keys: Keys
    values: tuple[Array, ...]
    outs: tuple[Array, ...] = ()

    def __call__(
        self, table: Table, first: int, noted: Array, serial: int, progress: Array, anew: Array = _NOT_ANEW
    ) -> int:
        """Go from a row on; the row that there was no room for, in the table or for what is noted, or their number.

        With `anew`, an entry that is noted begins with nothing, and its row is put there.
        """
        inputs = (self.keys.arguments(), (), self.values, (), self.outs)
        stopped: int = self.function(table.view(), first, *inputs, noted, anew, serial, progress)
        return stopped


def go_through(batch: pa.RecordBatch, loop: UpdateLoop, table: Table, changes: DirtyEntries) -> None:
    """Have a loop go through a batch, with more room wherever it stops for want of it."""
    progress, first, serial = np.array([0, changes.count]), 0, changes.serial
    try:
        while (first := loop(table, first, changes.rows, serial, progress)) < len(batch):
            if serial and progress[1] == len(changes.rows):
                changes.grow()
            else:
                table.make_room()
    except NumbaError:
        raise
    except Exception as error:
        [row] = batch.slice(int(progress[0]), 1).to_pylist()
        blame(error, {name: value for name, value in row.items() if not name.startswith(RESERVED)})
        raise
    table.settle(len(batch))
    if serial:
        changes.count = int(progress[1])


class CompiledAggregates:
    """Aggregates for keys and values of given types. They give results per record, or note what has changed."""

    def __init__(self, combined: Combined, key: KeyColumns, tell: Callable[[str], None] = lambda _: None) -> None:
        """`tell` is for who waits: that this takes seconds, when it does."""
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
                tell("compiling for columns, once: this takes some seconds")
            self._module: Any = load(text)
            self._warm_up()

    @property
    def columns(self) -> list[str]:
        """The columns that are looked at: those of the key, and those of values."""
        return list(dict.fromkeys([*self._key.names, *self._combined.columns]))

    def records(self, batch: pa.RecordBatch, keys: Keys) -> Records:
        """What is looked at of a batch that has these keys."""
        columns = [batch.column(name) for name in self._combined.columns]
        return Records(
            batch,
            keys,
            tuple(read(batch) for read in self._reads),
            tuple(nulls_of(column) if column.null_count else _NO_NULLS for column in columns),
        )

    def note(self, table: Table, records: Records, changes: DirtyEntries | None) -> None:
        """Apply records to `table`; what changes is noted, if somebody wants to know."""
        self._apply(table, records, (), changes or _UNNOTED)

    def each(self, table: Table, records: Records) -> pa.RecordBatch:
        """Apply records to `table`; what comes out, for each of them."""
        batch = records.batch
        outs = self._room(len(batch), [len(mask) > 0 for mask in records.nulls])
        self._apply(table, records, outs, _UNNOTED)
        keyed = [decode(batch.column(column.name), column.type) for column in self._key.columns]
        return pa.RecordBatch.from_arrays([*keyed, *self._arrays(outs)], schema=self.output)

    def results(self, table: Table, entries: Array) -> list[pa.Array]:
        """The columns of what comes out for entries of a table: their keys, and their results."""
        outs = self._room(len(entries), [True] * len(self._combined.columns))
        self._module.results(table.view(), entries, outs)
        return [*self._key.restored(*table.gather(entries)), *self._arrays(outs)]

    def loop(self, records: Records, outs: tuple[Array, ...] = ()) -> UpdateLoop:
        """What goes through records."""
        return UpdateLoop(self._module.apply, records.keys, (*records.values, *records.nulls), outs)

    def _apply(self, table: Table, records: Records, outs: tuple[Array, ...], changes: DirtyEntries) -> None:
        go_through(records.batch, self.loop(records, outs), table, changes)

    def _room(self, rows: int, some_null: Sequence[bool]) -> tuple[Array, ...]:
        """Arrays for results, and for which are missing: these only where something may be."""
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
        """Compile now, before there are records that wait for it."""
        fields = {name: self._combined.schema.field(name) for name in self.columns}
        empty = pa.RecordBatch.from_pylist([], schema=pa.schema(fields.values()))
        records = self.records(empty, self._key.keys(empty))
        table = Table(Bins(1), self.state_words)
        if self._combined.per_record:
            self.each(table, records)
        else:
            self.note(table, records, DirtyEntries())
            self.results(table, np.zeros(0, np.int64))


def _reader(field: pa.Field, of: str) -> Callable[[pa.RecordBatch], Array]:
    """From a batch to the numbers of a column, or its hashes: those that its values have as keys."""
    if of == "numbers":
        return lambda batch: _array(batch.column(field.name))
    key = KeyColumn.of(field)
    return lambda batch: sealed(key.hashes(key.plain(batch.column(field.name))))


def _array(column: pa.Array) -> Array:
    """The numbers of a column, anything where it is null; the compiler knows none of 16 bits with a fraction."""
    wide = column.cast(pa.float32()) if pa.types.is_float16(column.type) else column
    if wide.null_count:
        wide = wide.fill_null(False if pa.types.is_boolean(wide.type) else 0)
    return sealed(wide.to_numpy(zero_copy_only=False))
