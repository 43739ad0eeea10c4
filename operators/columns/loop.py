"""Generates the source of the loop over a batch, specialised for the columns of one operator.

`fold` and `aggregating` compile it; `combining` writes other loops of the same form. The loop finds or inserts each
key's entry, by the software pipeline that `routing.columns.table.probe` describes, and runs a step on its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from operators.columns import casts
from operators.columns.rewriting import Rewritten
from operators.errors import FoldNotCompiled
from routing.columns import compiled, memory
from routing.columns.keys import KeyColumns, read_only
from routing.columns.memory import Array
from routing.columns.table import entries, layout, probe

_HEADER = f"""\
import numpy as np
from {casts.__name__} import as_bool, as_float64, as_int64
from {compiled.__name__} import inlined, kernel
from {entries.__name__} import bin_of, find_or_insert, meta_address, remove
from {probe.__name__} import PREFETCH_DISTANCE, candidate, exceeds_l2, is_entry_of
from {probe.__name__} import prefetch_entry, prefetch_slot, probe_addresses
from {layout.__name__} import NO_ENTRY, NULL_SIZE, PAD, STATE, WIDTH
from {memory.__name__} import address_of, load_f64, load_i64, store

"""

# Arguments: `view` is a `TableView`, `keys` are `Keys.arguments`, `progress` the current row and the outputs so far.
# `rows` holds, per record, the row of each output; per epoch, the entries that changed, with a mask of those that have
# an output in `given`; of aggregates, the dirty entries, with the rows at which they became dirty in `given`. The loop
# returns the row that lacks room, to be resumed there.
_LOOP = """

@kernel
def {name}(view, first, keys, parts, values, initial, outs, rows, given, serial, progress):
    hashes, offsets, data, nulls, codes, known = keys
    where, table, begin = probe_addresses(view, data), meta_address(view), address_of(data)
    states, stride = address_of(view.entries) + 8 * (PAD + STATE), 8 * view.meta[WIDTH]
    some_null, coded = len(nulls) > 0, len(codes) > 0
    prefetching, end = exceeds_l2(view) and not coded, len(codes) if coded else len(hashes)
{unpacked}
    at, last = progress[1], end - 1
    candidates = np.empty(PREFETCH_DISTANCE, np.int64)
    if prefetching:
        for row in range(first, min(first + 2 * PREFETCH_DISTANCE, end)):
            prefetch_slot(where, hashes[row])
        for row in range(first, min(first + PREFETCH_DISTANCE, end)):
            candidates[row & (PREFETCH_DISTANCE - 1)] = prefetch_entry(where, hashes[row])
    removed = False
    for row in range(first, end):
        key, entry = np.uint64(row), np.int64(-1)
        if coded:
            key = np.uint64(codes[row])
            entry = known[key]
        if removed or entry < 0:
            hash, start = hashes[key], np.int64(offsets[key])
            size = np.int64(offsets[key + np.uint64(1)]) - start
            if some_null and nulls[key]:
                size = NULL_SIZE
            if prefetching:
                entry = candidates[row & (PREFETCH_DISTANCE - 1)]
                soon, later = min(row + PREFETCH_DISTANCE, last), min(row + 2 * PREFETCH_DISTANCE, last)
                candidates[row & (PREFETCH_DISTANCE - 1)] = prefetch_entry(where, hashes[np.uint64(soon)])
                prefetch_slot(where, hashes[np.uint64(later)])
            elif entry < 0:
                entry = candidate(where, hash)
            if not is_entry_of(where, entry, hash, start, size):
                entry = find_or_insert(table, begin, begin + len(data), entry, hash, start, size)
                if entry < 0:
                    entry = ~entry
                    if entry == NO_ENTRY:
                        progress[1] = at
                        return row
                    state = states + stride * entry
{initial}
            if coded:
                known[key] = entry
        state = states + stride * entry
        progress[0] = row
{step}
    progress[1] = at
    return end
"""

_PER_RECORD = """\
        {results} = fold({key}, {value}, {state})
        if keep:
{kept}
        else:
            remove(table, entry, bin_of(view, hashes[key]))
            removed = coded
{store}"""

_PER_EPOCH = """\
        mark = load_i64(state + {mark})
        gone = mark < 0
        if gone:
            mark = ~mark
        if mark >> 32 != serial:
            if at == len(rows):
                progress[1] = at
                return row
            mark = (serial << 32) | at
            rows[at] = entry
            given[at] = False
            at += 1
        place = mark & 0xFFFFFFFF
        {results} = fold({key}, {value}, {state})
        if keep:
{kept}
            store(state + {mark}, mark)
        else:
            store(state + {mark}, ~mark)
        if count > 0:
            given[place] = True
{store}"""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of numbers or truth values: of a state, of values, or of outputs."""

    name: str
    type: pa.DataType

    @property
    def cast(self) -> str:
        """The function that converts a value to the column's type (`operators.columns.casts`)."""
        if pa.types.is_boolean(self.type):
            return "as_bool"
        return "as_float64" if pa.types.is_floating(self.type) else "as_int64"

    def read(self, address: str) -> str:
        """Source that loads its word of a state."""
        if self.cast == "as_float64":
            return f"load_f64({address})"
        return f"load_i64({address})" + (" != 0" if self.cast == "as_bool" else "")

    def write(self, address: str, value: str) -> str:
        """Source that stores its word of a state."""
        return f"store({address}, np.int64({value}))" if self.cast == "as_bool" else f"store({address}, {value})"

    @property
    def takes(self) -> tuple[type, ...]:
        """The Python types that it accepts."""
        whole = (bool, int, np.integer, np.bool_)
        return {"as_bool": (bool, np.bool_), "as_float64": (*whole, float, np.floating), "as_int64": whole}[self.cast]

    @property
    def dtype(self) -> Any:
        """The numpy type, at full width."""
        return {"as_bool": np.bool_, "as_float64": np.float64, "as_int64": np.int64}[self.cast]

    @property
    def widening(self) -> str:
        """The function that widens a value of a narrower column."""
        return {"as_bool": "", "as_float64": "np.float64", "as_int64": "np.int64"}[self.cast]


def is_number(kind: pa.DataType) -> bool:
    """Whether compiled code can work on values of a type. It lacks uint64: numba promotes int64 + uint64 to float64."""
    if pa.types.is_uint64(kind):
        return False
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def numbers_of(column: pa.Array) -> Array:
    """The numbers of a column as kernels take them, with 0 for nulls. numba has no float16, which is widened."""
    wide = column.cast(pa.float32()) if pa.types.is_float16(column.type) else column
    if wide.null_count:
        wide = wide.fill_null(False if pa.types.is_boolean(wide.type) else 0)
    return read_only(wide.to_numpy(zero_copy_only=False))


def number_fields(schema: pa.Schema, what: str) -> list[Field]:
    """The fields of a schema, all of which must be numbers or truth values."""
    for field in schema:
        if not is_number(field.type):
            raise FoldNotCompiled(
                f"{what} {field.name!r} is {field.type}, and compiled code works on numbers and truth values (int64, "
                f"float64, bool and narrower ones); cast it in a `map` before, or use rows: .to_rows(), then "
                f"the same fold"
            )
    return [Field(field.name, field.type) for field in schema]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a loop is specialised for."""

    key: KeyColumns
    values: Sequence[Field]
    state: Sequence[Field]
    output: pa.Schema
    fold: Rewritten
    per_epoch: bool

    @property
    def stored(self) -> list[int]:
        """The output columns that the loop stores; the others are the key's."""
        return [index for index in range(len(self.output)) if index not in self.fold.echoes]

    @property
    def key_numbers(self) -> list[Field]:
        """The key columns that a fold can work on."""
        return [Field(column.name, column.type) for column in self.key.columns if is_number(column.type)]

    def source(self) -> str:
        """The source of a module with the function `apply`."""
        unpacked = [f"    out{index} = address_of(outs[{number}])" for number, index in enumerate(self.stored)]
        unpacked += [f"    value{index} = values[{index}]" for index in range(len(self.values))]
        unpacked += [f"    part{index} = parts[{index}]" for index in range(len(self.key_numbers))]
        initial = self._put("initial", 20)
        if self.per_epoch:
            initial += f"\n{' ' * 20}store(state + {8 * len(self.state)}, 0)"
        return loop_source(self.fold.text, unpacked="\n".join(unpacked), initial=initial, step=self._step())

    def _step(self) -> str:
        results = ["count", "keep", "after", *(f"output{number}" for number in range(self.fold.outputs_max))]
        values = [f"{field.widening}(value{index}[row])" for index, field in enumerate(self.values)]
        return (_PER_EPOCH if self.per_epoch else _PER_RECORD).format(
            results=", ".join(results),
            key=self._key(),
            value=_tuple_or_one(values or ["1"]),
            state=_tuple_or_one([self._read(index, field) for index, field in enumerate(self.state)]),
            kept=self._put("after", 12),
            mark=8 * len(self.state),
            store="\n".join(self._store_last() if self.per_epoch else self._store_all()),
        )

    def _read(self, index: int, field: Field) -> str:
        word = field.read(f"state + {8 * index}")
        return f"(initial[{index}] if gone else {word})" if self.per_epoch else word

    def _put(self, source: str, indent: int) -> str:
        writes = [field.write(f"state + {8 * index}", f"{source}[{index}]") for index, field in enumerate(self.state)]
        return "\n".join(" " * indent + write for write in writes)

    def _store_all(self) -> list[str]:
        lines = []
        for number in range(self.fold.outputs_max):
            indent = " " * 8
            if not self.fold.always_one:
                lines.append(f"{indent}if count > {number}:")
                indent = " " * 12
            lines += [f"{indent}{self._store(index, 'at', number)}" for index in self.stored]
            if not self.fold.always_one:
                lines.append(f"{indent}rows[at] = row")
            lines.append(f"{indent}at += 1")
        return lines

    def _store(self, index: int, at: str, number: int) -> str:
        size = np.dtype(Field("", self.output.field(index).type).dtype).itemsize
        return f"store(out{index} + {size} * {at}, output{number}[{index}])"

    def _store_last(self) -> list[str]:
        lines = []
        for number in range(self.fold.outputs_max):
            lines.append(f"{' ' * 12}if count == {number + 1}:")
            lines += [f"{' ' * 16}{self._store(index, 'place', number)}" for index in self.stored]
            lines.append(f"{' ' * 16}pass")
        return lines

    def _key(self) -> str:
        parts, number = [], 0
        for column in self.key.columns:
            if is_number(column.type):
                parts.append(f"{Field(column.name, column.type).widening}(part{number}[row])")
                number += 1
            else:
                parts.append("None")
        return _tuple_or_one(parts)


def loop_source(before: str, *, unpacked: str, initial: str, step: str, name: str = "apply") -> str:
    """The source of a module with the loop: `unpacked` runs before it, `initial` for each new entry, and `step` for
    each record. `before` is source that these use."""
    return _HEADER + before + _LOOP.format(name=name, unpacked=unpacked, initial=initial, step=step)


def _tuple_or_one(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else "(" + "".join(f"{part}, " for part in parts) + ")"
