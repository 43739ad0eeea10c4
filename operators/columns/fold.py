"""A fold compiled for columns: runs the generated loop over batches, and collects its outputs.

`rewriting` makes the author's function compile, `loop` writes the loop around it; this module compiles both, while the
dataflow is built, and blames an error on the author's line. `stateful_state_machine` drives it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numba.core.errors import NumbaError

from framework.error_context import attach_record
from operators.columns.loop import Field, Shape, is_number, number_fields, numbers_of
from operators.columns.module_cache import is_new, load
from operators.columns.rewriting import MARK, FoldSource, Rewriter, Rewritten
from operators.errors import FoldNotCompiled, ValueUnfit
from routing.bins import Bins
from routing.columns.compiled import compiling
from routing.columns.keys import KeyColumns, Keys
from routing.columns.memory import Array, empty
from routing.columns.table.table import Table
from routing.columns.take import decode, take

EPOCH_CAPACITY_MIN = 1024
"""The capacity for the keys of an epoch at first."""

_NO_ROWS = np.zeros(0, np.int64)
_NO_MASK = np.zeros(0, np.bool_)


class CompiledFold:
    """A fold, with the columns of its state and outputs, for keys and values of given types.

    Per record it emits what the fold returns; per epoch, the last that it returned for each key.
    """

    def __init__(
        self,
        function: Any,
        *,
        key: KeyColumns,
        values: Sequence[Field],
        state: Sequence[Field],
        initial: Sequence[Any],
        output: pa.Schema,
        per_epoch: bool = False,
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`function` is the author's, or already in the form of `rewriting`.

        `log` is called before a compilation, which takes seconds.
        """
        self._initial = tuple(field.dtype(value) for field, value in zip(state, initial, strict=True))
        with compiling:
            self._source = None if isinstance(function, Rewritten) else FoldSource.of(function)
            if self._source is not None:
                casts = [Field(field.name, field.type).cast if is_number(field.type) else "" for field in output]
                function = Rewriter(self._source, [field.cast for field in state], casts, len(key.columns)).rewrite()
            self._shape = Shape(key, values, state, output, function, per_epoch)
            self._dtypes = [np.dtype(field.dtype) for field in self._stored_fields()]
            """Those of the output columns that are not the key's."""
            names, echoes = key.names, function.echoes
            self._columns = [
                (names[echoes[index]] if index in echoes else None, field.type) for index, field in enumerate(output)
            ]
            """For each output column: the key column that it echoes, if it does, and its type."""
            self._text = self._shape.source()
            if is_new(self._text):
                log("compiling for columns, once: this takes some seconds")
            self._module: Any = load(self._text)
            self._serial = 1
            self._count = 0
            self._outs: tuple[Array, ...] = ()
            self._rows: Array
            self._has_output: Array
            self._start_epoch(EPOCH_CAPACITY_MIN)
            self._warm_up()

    @property
    def per_epoch(self) -> bool:
        """Whether outputs come when an epoch is complete."""
        return self._shape.per_epoch

    @property
    def output(self) -> pa.Schema:
        """The schema of outputs."""
        return self._shape.output

    @property
    def state_words(self) -> int:
        """The number of words of an entry's state, its mark included."""
        return len(self._shape.state) + self._shape.per_epoch

    @property
    def epoch(self) -> int:
        """The serial of the current epoch: the upper half of the mark of entries that have changed in it."""
        return self._serial

    def apply(self, table: Table, batch: pa.RecordBatch, keys: Keys) -> pa.RecordBatch:
        """Fold a batch into `table`; return the outputs, if they come per record."""
        fold = self._shape.fold
        if self._shape.per_epoch:
            outs, rows, has_output = self._outs, self._rows, self._has_output
        else:
            capacity = len(batch) * fold.outputs_max
            outs = tuple([empty(capacity, dtype) for dtype in self._dtypes])
            rows, has_output = _NO_ROWS if fold.always_one else empty(capacity, np.int64), _NO_MASK
        progress = np.array([0, self._count if self._shape.per_epoch else 0])
        values = tuple(self._numbers(batch, field) for field in self._shape.values)
        parts = tuple(self._key_numbers(batch, field) for field in self._shape.key_numbers)
        first, inputs = 0, (parts, values, self._initial)
        try:
            while True:
                first = self._module.apply(
                    table.view(), first, keys.arguments(), *inputs, outs, rows, has_output, self._serial, progress
                )
                if first == len(batch):
                    break
                if self._shape.per_epoch and progress[1] == len(rows):
                    outs, rows, has_output = self._grow_epoch()
                else:
                    table.grow()
        except NumbaError:
            raise
        except Exception as error:
            row = int(progress[0])
            record = batch.slice(row, 1).to_pylist()[0]
            told = self._raised_in_python(table, keys.hashes_at(np.array([row])), record) or error
            attach_record(told, record)
            raise told from None
        table.advance_rehash(len(batch))
        if self._shape.per_epoch:
            self._count = int(progress[1])
            return self._empty()
        return self._per_record(batch, outs, rows, int(progress[1]))

    def finish_epoch(self, table: Table) -> pa.RecordBatch:
        """The last output of each key that had one in this epoch; the next epoch begins."""
        key, echoes = self._shape.key, self._shape.fold.echoes
        chosen, entries = np.flatnonzero(self._has_output[: self._count]), self._rows[: self._count]
        columns = key.decode(*table.gather(entries[chosen])) if echoes else []
        stored = iter(self._outs)
        arrays = [
            columns[echoes[index]] if index in echoes else _column(next(stored)[chosen], len(chosen), field.type)
            for index, field in enumerate(self._shape.output)
        ]
        discarded = entries[table.state_word(entries, len(self._shape.state)).view(np.int64) < 0]
        table.remove(discarded, key.keys_from_bytes(*table.gather(discarded)).hashes)
        self._serial += 1
        self._start_epoch(max(EPOCH_CAPACITY_MIN, min(len(self._rows), 4 * self._count)))
        return pa.RecordBatch.from_arrays(arrays, schema=self._shape.output)

    def _start_epoch(self, capacity: int) -> None:
        self._count = 0
        capacity = capacity if self._shape.per_epoch else 0
        self._outs = tuple(np.empty(capacity, dtype) for dtype in self._dtypes)
        self._rows, self._has_output = np.empty(capacity, np.int64), np.empty(capacity, np.bool_)

    def _grow_epoch(self) -> tuple[tuple[Array, ...], Array, Array]:
        self._outs = tuple(np.concatenate([out, np.empty_like(out)]) for out in self._outs)
        self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._has_output = np.concatenate([self._has_output, np.empty_like(self._has_output)])
        return self._outs, self._rows, self._has_output

    def _warm_up(self) -> None:
        """Compile now, before records wait for it."""
        shape = self._shape
        fields = [*shape.key.schema, *(pa.field(field.name, field.type) for field in shape.values)]
        schema = pa.schema({field.name: field for field in fields}.values())
        empty = pa.RecordBatch.from_pylist([], schema=schema)
        try:
            self.apply(Table(Bins(1), self.state_words), empty, shape.key.keys(empty))
        except NumbaError as error:
            raise self._explain(error) from None

    def _per_record(self, batch: pa.RecordBatch, outs: Sequence[Array], rows: Array, count: int) -> pa.RecordBatch:
        kept = None if self._shape.fold.always_one else rows[:count]
        arrays: list[pa.Array] = []
        stored = iter(outs)
        for echo, kind in self._columns:
            if echo is None:
                arrays.append(_column(next(stored), count, kind))
            else:
                column = batch.column(echo)
                arrays.append(decode(column if kept is None else take(column, kept), kind))
        return pa.RecordBatch.from_arrays(arrays, schema=self._shape.output)

    def _empty(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=self._shape.output)

    def _raised_in_python(self, table: Table, hash: Array, record: dict[str, Any]) -> Exception | None:
        """What the author's function raises for a record that the compiled one failed on, which tells no line."""
        key, entries = self._shape.key, table.entries()
        found = entries[key.keys_from_bytes(*table.gather(entries)).hashes == hash]
        if self._source is None or not len(found):
            return None
        state = []
        for index, field in enumerate(self._shape.state):
            word = table.state_word(found[:1], index).view(np.float64 if field.dtype is np.float64 else np.int64)
            state.append(field.dtype(word[0]).item())
        values = [record[field.name] for field in self._shape.values] or [1]
        keys = [record[name] for name in key.names]
        try:
            self._source.function(*map(_tuple_or_one, (keys, values, state)))
        except Exception as error:
            return error
        return None

    def _numbers(self, batch: pa.RecordBatch, field: Field) -> Array:
        column = batch.column(field.name)
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise ValueUnfit(
                f"column {field.name!r} is null in {batch.slice(row, 1).to_pylist()[0]!r}, and compiled code works on "
                f"numbers; fill it (`pc.fill_null` in a `map`), leave such records out (`filter`), or use rows"
            )
        return numbers_of(column)

    def _key_numbers(self, batch: pa.RecordBatch, field: Field) -> Array:
        if self._shape.fold.reads_key:
            return self._numbers(batch, field)
        return numbers_of(batch.column(field.name))

    def _stored_fields(self) -> list[Field]:
        """The output columns that are not the key's."""
        fields: list[Field] = []
        shape = self._shape
        for index, field in enumerate(shape.output):
            if index not in shape.fold.echoes:
                fields += number_fields(pa.schema([field]), "output")
                continue
            column = shape.key.columns[shape.fold.echoes[index]]
            if column.type != field.type:
                raise FoldNotCompiled(
                    f"output {field.name!r} is declared {field.type}, and it is the key {column.name!r}, which is "
                    f"{column.type}; declare it so"
                )
        return fields

    def _explain(self, error: NumbaError) -> Exception:
        """numba's error, as one about the author's line."""
        if self._source is None:
            return error
        text = str(error)
        lines = self._text.splitlines()
        fold = lines[: lines.index("@kernel")]  # the loop behind it has no line of the author's
        file = re.escape(Path(self._module.__file__ or "").name)
        for number in map(int, re.findall(rf'{file}", line (\d+)', text)):  # innermost first
            for line in reversed(fold[:number] if number <= len(fold) else []):
                mark = line.strip().strip("'")
                if mark.startswith(MARK):
                    return self._source.refuse(int(mark.removeprefix(MARK)), _reason(text))
        return self._source.refuse(1, _reason(text))


def _tuple_or_one(parts: Sequence[Any]) -> Any:
    """What a fold is given for one column, or for several."""
    return parts[0] if len(parts) == 1 else tuple(parts)


def _column(values: Array, count: int, kind: pa.DataType) -> pa.Array:
    """A column of the first `count` values."""
    if kind in _ZERO_COPY:
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)])
    return pa.array(values[:count]).cast(kind)


_ZERO_COPY = (pa.int64(), pa.float64())
"""The types whose layout in Arrow is that in which loops store values."""


def _reason(text: str) -> str:
    """The gist of numba's long message."""
    for pattern in (r"(a column declared as .*)", r"(Undecided type.*)", r"(Unknown attribute.*)", r"(Cannot unify.*)"):
        found = re.search(pattern, text)
        if found:
            return found[1].strip()
    found = re.search(r"No implementation of function (.*?) found for signature:\s*>>> (.*)", text)
    if found:
        return f"there is no {found[2].strip()} for these types"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[1] if len(lines) > 1 else lines[0]
