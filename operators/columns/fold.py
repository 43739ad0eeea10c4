"""A fold compiled for columns: one loop over a batch that finds each key's state, folds, and stores what comes out."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
from numba.core.errors import NumbaError

from operators.columns import casts
from operators.columns.errors import FoldNotCompiled, ValueUnfit
from operators.columns.rewriting import MARK, Rewriter, Rewritten, Source, surroundings
from routing.columns.compiled import cache_directory, caching
from routing.columns.keys import Array, KeyColumns, Keys
from routing.columns.table import Table

_HEADER = f"""\
import numpy as np
from {casts.__name__} import as_bool, as_float64, as_int64
from routing.columns.compiled import inlined, kernel
from routing.columns.table import (
    PAD, STATE, WIDTH, addresses, bin_of, find, insert, is_far, prefetch_entry, prefetch_slot, remove, size_of
)

"""

_LOOP = """

@kernel
def apply(view, first, hashes, offsets, data, nulls, parts, values, initial, outs, rows, progress):
    where, far = addresses(view, data), is_far(view)
    ints, floats = view.entries.view(np.int64), view.entries.view(np.float64)
    width = view.meta[WIDTH]
{unpacked}
    at = progress[1]
    for block in range(first, len(hashes), 32):
        end = min(block + 32, len(hashes))
        if far:
            for row in range(block, end):
                prefetch_slot(where, hashes[row])
            for row in range(block, end):
                prefetch_entry(where, hashes[row])
        for row in range(block, end):
            hash, start, size = hashes[row], np.int64(offsets[row]), size_of(offsets, nulls, row)
            entry = find(where, hash, start, size)
            base = PAD + entry * width + STATE
            if entry < 0:
                entry = insert(view, hash, data, start, size)
                if entry < 0:
                    progress[1] = at
                    return row
                base = PAD + entry * width + STATE
{initial}
            progress[0] = row
            {results} = fold({key}, {value}, {state})
            if keep:
{kept}
            else:
                remove(view, entry, bin_of(view, hash))
{store}
    progress[1] = at
    return len(hashes)
"""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of numbers: of a state, of values, or of outputs."""

    name: str
    type: pa.DataType

    @property
    def cast(self) -> str:
        """The function that makes a value one of this column."""
        if pa.types.is_boolean(self.type):
            return "as_bool"
        return "as_float64" if pa.types.is_floating(self.type) else "as_int64"

    @property
    def array(self) -> str:
        """Of the arrays that a state's word can be read through, the one for this column."""
        return {"as_bool": "ints", "as_float64": "floats", "as_int64": "ints"}[self.cast]

    @property
    def takes(self) -> tuple[type, ...]:
        """What Python has for it."""
        whole = (bool, int, np.integer, np.bool_)
        return {"as_bool": (bool, np.bool_), "as_float64": (*whole, float, np.floating), "as_int64": whole}[self.cast]

    @property
    def dtype(self) -> Any:
        """What numpy calls it, at full width."""
        return {"as_bool": np.bool_, "as_float64": np.float64, "as_int64": np.int64}[self.cast]


def numbers(schema: pa.Schema, what: str) -> list[Field]:
    """The fields of a schema, all of which must be numbers or truth values."""
    for field in schema:
        kind = field.type
        if pa.types.is_uint64(kind) or not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        ):
            raise FoldNotCompiled(
                f"{what} {field.name!r} is {kind}, and compiled code works on numbers and truth values (int64, "
                f"float64, bool and narrower ones); cast it in a `map` before, or use rows: .to_rows(), then "
                f"the same fold"
            )
    return [Field(field.name, field.type) for field in schema]


class CompiledFold:
    """A fold, its state's columns and its outputs', for keys and values of given types."""

    def __init__(
        self,
        function: Any,
        *,
        key: KeyColumns,
        values: Sequence[Field],
        state: Sequence[Field],
        initial: Sequence[Any],
        output: pa.Schema,
    ) -> None:
        self._source = Source.of(function)
        self._key = key
        self._values = values
        self._state = state
        self._initial = tuple(field.dtype(value) for field, value in zip(state, initial, strict=True))
        self._schema = output
        self._rewritten, text = self._generate()
        self._outputs = self._declared(self._rewritten)
        self._text = text
        self._module = _load(text)
        self.warm_up()

    def warm_up(self) -> None:
        """Compile now, before there are records that wait for it."""
        names = [*self._key.names, *(field.name for field in self._values)]
        fields = [*self._key.schema, *(pa.field(field.name, field.type) for field in self._values)]
        batch = pa.schema(dict(zip(names, fields, strict=True)).values()).empty_table().to_batches()
        empty = batch[0] if batch else pa.RecordBatch.from_pylist([], schema=pa.schema(fields))
        from routing.bins import Bins

        try:
            self.apply(Table(Bins(1), len(self._state)), empty, self._key.keys(empty))
        except NumbaError as error:
            raise self._explained(error) from None

    def apply(self, table: Table, batch: pa.RecordBatch, keys: Keys) -> pa.RecordBatch:
        """Fold a batch into `table`; what comes out."""
        rewritten = self._rewritten
        capacity = len(batch) * rewritten.outputs_max
        outs = tuple(np.empty(capacity, field.dtype) for field in self._outputs if field is not None)
        rows = np.empty(0 if rewritten.always_one else capacity, np.int64)
        progress = np.zeros(2, np.int64)
        values = tuple(self._numbers(batch, field) for field in self._values)
        parts = tuple(self._key_values(batch))
        first = 0
        arguments = (keys.hashes, keys.offsets, keys.data, keys.nulls, parts, values, self._initial, outs, rows)
        try:
            while (first := self._module.apply(table.view(), first, *arguments, progress)) < len(batch):
                table.make_room()
        except NumbaError:
            raise
        except Exception as error:
            record = batch.slice(int(progress[0]), 1).to_pylist()[0]
            error.add_note(f"the record is {record!r}")
            raise
        table.settle(len(batch))
        return self._batch(batch, outs, rows, int(progress[1]))

    def _batch(self, batch: pa.RecordBatch, outs: Sequence[Array], rows: Array, count: int) -> pa.RecordBatch:
        rewritten = self._rewritten
        taken = None if rewritten.always_one else pa.array(rows[:count])
        arrays: list[pa.Array] = []
        stored = iter(outs)
        for index, field in enumerate(self._schema):
            if index in rewritten.echoes:
                column = batch.column(self._key.names[rewritten.echoes[index]])
                arrays.append(column if taken is None else column.take(taken))
            else:
                array = pa.array(next(stored)[:count])
                arrays.append(array if array.type == field.type else array.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _numbers(self, batch: pa.RecordBatch, field: Field) -> Array:
        column = batch.column(field.name)
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise ValueUnfit(
                f"column {field.name!r} is null in {batch.slice(row, 1).to_pylist()[0]!r}, and compiled code works on "
                f"numbers; fill it (`pc.fill_null` in a `map`), leave such records out (`filter`), or use rows"
            )
        return _array(column)

    def _key_values(self, batch: pa.RecordBatch) -> list[Array]:
        return [
            _array(batch.column(column.name))
            for column in self._key.columns
            if _is_number(column.type) and not batch.column(column.name).null_count
        ]

    def _declared(self, rewritten: Rewritten) -> list[Field | None]:
        """The columns of the outputs; None where it is the key's."""
        fields: list[Field | None] = []
        for index, field in enumerate(self._schema):
            if index in rewritten.echoes:
                column = self._key.columns[rewritten.echoes[index]]
                if column.type != field.type:
                    raise FoldNotCompiled(
                        f"output {field.name!r} is declared {field.type}, and it is the key {column.name!r}, which is "
                        f"{column.type}; declare it so"
                    )
                fields.append(None)
            else:
                fields += numbers(pa.schema([field]), "output")
        return fields

    def _generate(self) -> tuple[Rewritten, str]:
        outputs = [Field(field.name, field.type).cast if _is_number(field.type) else "" for field in self._schema]
        rewriter = Rewriter(self._source, [field.cast for field in self._state], outputs, len(self._key.columns))
        rewritten = rewriter.rewrite()
        return rewritten, _HEADER + surroundings(self._source) + "\n" + rewritten.text + self._loop(rewritten)

    def _loop(self, rewritten: Rewritten) -> str:
        """The source of the loop over a batch."""
        state = [
            f"ints[base + {index}] != 0" if field.cast == "as_bool" else f"{field.array}[base + {index}]"
            for index, field in enumerate(self._state)
        ]
        values = [f"{_plain(field)}(value{index}[row])" for index, field in enumerate(self._values)] or ["1"]
        columns = [index for index in range(len(self._schema)) if index not in rewritten.echoes]
        results = ["count", "keep", "after", *(f"output{number}" for number in range(rewritten.outputs_max))]
        store: list[str] = []
        for number in range(rewritten.outputs_max):
            indent = 12
            if not rewritten.always_one:
                store.append(f"{' ' * 12}if count > {number}:")
                indent = 16
            store += [f"{' ' * indent}out{index}[at] = output{number}[{index}]" for index in columns]
            if not rewritten.always_one:
                store.append(f"{' ' * indent}rows[at] = row")
            store.append(f"{' ' * indent}at += 1")
        unpacked = [f"    out{index} = outs[{number}]" for number, index in enumerate(columns)]
        unpacked += [f"    value{index} = values[{index}]" for index in range(len(self._values))]
        unpacked += [f"    part{index} = parts[{index}]" for index in range(self._key_text().count("part"))]
        return _LOOP.format(
            unpacked="\n".join(unpacked),
            initial=self._put("initial"),
            results=", ".join(results),
            key=self._key_text(),
            value=_tuple_or_one(values),
            state=_tuple_or_one(state),
            kept=self._put("after"),
            store="\n".join(store),
        )

    def _put(self, source: str) -> str:
        fields = enumerate(self._state)
        return "\n".join(f"{' ' * 16}{field.array}[base + {index}] = {source}[{index}]" for index, field in fields)

    def _key_text(self) -> str:
        parts, number = [], 0
        for column in self._key.columns:
            if _is_number(column.type):
                parts.append(f"{_plain(Field(column.name, column.type))}(part{number}[row])")
                number += 1
            else:
                parts.append("None")
        return _tuple_or_one(parts)

    def _explained(self, error: NumbaError) -> FoldNotCompiled:
        """The compiler's complaint, about the author's line."""
        text = str(error)
        lines = self._text.splitlines()
        fold = lines[: lines.index("@kernel")]  # what calls it, behind it, has no line of the author's
        file = re.escape(Path(self._module.__file__ or "").name)
        for number in map(int, re.findall(rf'{file}", line (\d+)', text)):  # innermost first
            for line in reversed(fold[:number] if number <= len(fold) else []):
                mark = line.strip().strip("'")
                if mark.startswith(MARK):
                    return self._source.refuse(int(mark.removeprefix(MARK)), _reason(text))
        return self._source.refuse(1, _reason(text))


def _reason(text: str) -> str:
    """What a compiler's long text is about."""
    for pattern in (r"(a column declared as .*)", r"(Undecided type.*)", r"(Unknown attribute.*)", r"(Cannot unify.*)"):
        found = re.search(pattern, text)
        if found:
            return found[1].strip()
    found = re.search(r"No implementation of function (.*?) found for signature:\s*>>> (.*)", text)
    if found:
        return f"there is no {found[2].strip()} for these types"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[1] if len(lines) > 1 else lines[0]


def _tuple_or_one(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else "(" + "".join(f"{part}, " for part in parts) + ")"


def _array(column: pa.Array) -> Array:
    """The numbers of a column; the compiler knows none of 16 bits with a fraction."""
    wide = column.cast(pa.float32()) if pa.types.is_float16(column.type) else column
    array: Array = wide.to_numpy(zero_copy_only=False)
    return array


def _plain(field: Field) -> str:
    return {"as_bool": "", "as_float64": "np.float64", "as_int64": "np.int64"}[field.cast]


def _is_number(kind: pa.DataType) -> bool:
    if pa.types.is_uint64(kind):
        return False
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


_loaded: dict[str, ModuleType] = {}


def _load(text: str) -> ModuleType:
    """The module with this source, kept in a file, beside which the compiler keeps what it made of it."""
    name = f"fold_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    if name in _loaded:
        return _loaded[name]
    path = cache_directory() / f"{name}.py"
    if not path.exists():
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(path)
    spec = importlib.util.spec_from_file_location(f"hailer_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with caching():
        spec.loader.exec_module(module)
    _loaded[name] = module
    return module
