"""Which rows of a batch go where.

Rows are read in their order and written to the parts that they belong to, so that memory is read once, from beginning
to end, and each part is written from beginning to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa

from routing.columns.compiled import kernel
from routing.columns.gathering import gathered
from routing.columns.keys import HASHES, byte_strings, sealed
from routing.columns.memory import WORD, Array, address_of, copy_rest, empty, load_before, load_i64, store

_CURSOR = 8
"""The words of a part's cursor: a cache line."""

_ROOM, _ROOM_MIN = 1.25, 4096
"""Strings of a part are taken to be at most so much longer than those of all, and have so many bytes more: to look at
each beforehand takes a fifth of the time of dividing them."""

_COMPARED_MAX = 8
"""Rows of so few parts are counted part by part."""

_HASHES = pa.field(HASHES, pa.uint64())
_NOTHING = sealed(np.zeros(0, np.uint64))


@dataclass(frozen=True, slots=True)
class Division:
    """Which part the rows of a bin go to. A bin is what is left of a hash, shifted."""

    shift: int
    part_of_bin: Array
    parts: int


WHOLE = Division(64, np.zeros(1, np.uint16), 1)
"""All rows stay together."""


def divided(batch: pa.RecordBatch, hashes: Array, division: Division) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that their bin is in, each part in their order, with a column of their hashes."""
    if batch.schema.names[-1] == HASHES:
        batch = batch.remove_column(batch.num_columns - 1)
    part_of_row = empty(len(hashes), np.uint16)
    _assign(sealed(hashes), division.shift, division.part_of_bin, part_of_row)
    counts = _counted(part_of_row, division.parts)
    if len(batch) in counts:
        whole = batch.append_column(_HASHES, pa.array(hashes))
        return [whole if count else whole.slice(0, 0) for count in counts]
    return _dealt(batch, hashes, part_of_row, counts)


def divided_by(batch: pa.RecordBatch, part_of_row: Array, parts: int) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that each names."""
    part_of_row = part_of_row.astype(np.uint16)
    counts = _counted(part_of_row, parts)
    if len(batch) in counts:
        return [batch if count else batch.slice(0, 0) for count in counts]
    return _dealt(batch, _NOTHING, part_of_row, counts)


def with_keys(
    batch: pa.RecordBatch, name: str, keys: list[pa.DictionaryArray], part_of_row: Array
) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that each is in; the column `name` is divided already."""
    counts, names = [len(part) for part in keys], batch.schema.names
    dealt = [keys if one == name else _scattered(batch.column(one), part_of_row, counts) for one in names]
    return [pa.RecordBatch.from_arrays(list(arrays), names) for arrays in zip(*dealt, strict=True)]


def part_of_bin(owners: Sequence[int], among: Sequence[int]) -> Array:
    """For each bin, which of `among` owns it."""
    index = {worker: part for part, worker in enumerate(among)}
    return np.array([index[owner] for owner in owners], np.uint16)


def warm_up() -> None:
    """Compile now, before there are records that wait for it."""
    batch = pa.record_batch({"word": ["a", "b"], "number": np.zeros(2, np.int64)})
    assert len(divided(batch, np.array([0, 2**63], np.uint64), Division(63, np.arange(2, dtype=np.uint16), 2))) == 2


def _counted(part_of_row: Array, parts: int) -> list[int]:
    """How many rows each part has. To compare all rows at once takes a tenth of the time of counting them one by one,
    where each has to wait for the one before."""
    if parts > _COMPARED_MAX:
        return list(np.bincount(part_of_row, minlength=parts).tolist())
    counts = [int(np.count_nonzero(part_of_row == part)) for part in range(1, parts)]
    return [len(part_of_row) - sum(counts), *counts]


def _dealt(batch: pa.RecordBatch, hashes: Array, part_of_row: Array, counts: list[int]) -> list[pa.RecordBatch]:
    """The rows by their parts; the hashes, if there are any, go along with the first column of strings."""
    dealt, schema = [], batch.schema
    hashed = [pa.allocate_buffer(8 * count) for count in counts] if len(hashes) else []
    waiting = hashes
    for column in batch.columns:
        if len(waiting) and _is_text(column):
            dealt.append(_scattered_strings(column, part_of_row, counts, waiting, hashed))
            waiting = _NOTHING
        else:
            dealt.append(_scattered(column, part_of_row, counts))
    if len(hashes):
        if len(waiting):
            _scatter_numbers(hashes, part_of_row, _cursors(_addresses(hashed)))
        dealt.append(_arrays(_HASHES.type, counts, hashed))
        schema = schema.append(_HASHES)
    return [pa.RecordBatch.from_arrays(list(arrays), schema=schema) for arrays in zip(*dealt, strict=True)]


def _is_text(column: pa.Array) -> bool:
    return bool(column.null_count == 0 and (pa.types.is_string(column.type) or pa.types.is_binary(column.type)))


def _scattered_strings(
    column: pa.Array, part_of_row: Array, counts: list[int], along: Array = _NOTHING, hashed: Sequence[pa.Buffer] = ()
) -> list[pa.Array]:
    offsets, data = byte_strings(column)
    ends = [pa.allocate_buffer(4 * count + 4) for count in counts]
    along_at = _addresses(hashed) if len(along) else [0] * len(counts)
    for sizes in _sizes(offsets, part_of_row, counts):
        octets = [pa.allocate_buffer(size + WORD) for size in sizes]
        cursors = _cursors(_addresses(octets), _addresses(ends), along_at, sizes)
        if _scatter_strings(offsets, data, along, part_of_row, cursors):
            break
    return [
        pa.Array.from_buffers(column.type, count, [None, end, octet])
        for count, end, octet in zip(counts, ends, octets, strict=True)
    ]


def _sizes(offsets: Array, part_of_row: Array, counts: list[int]) -> Iterator[list[int]]:
    """How many bytes to have for the strings of each part: a guess, and if that was too little, how many there are."""
    per_row = (int(offsets[-1]) - int(offsets[0])) / len(part_of_row)
    yield [int(per_row * count * _ROOM) + _ROOM_MIN for count in counts]
    sizes = np.zeros(len(counts), np.int64)
    _measure(offsets, part_of_row, sizes)
    yield sizes.tolist()


def _scattered(column: pa.Array, part_of_row: Array, counts: list[int]) -> list[pa.Array]:
    kind = column.type
    if _is_text(column):
        return _scattered_strings(column, part_of_row, counts)
    fixed = pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind)
    if column.null_count == 0 and fixed and kind.bit_width in (8, 16, 32, 64):
        dtype = np.dtype(f"u{kind.bit_width // 8}")
        values = sealed(np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize))
        found = [pa.allocate_buffer(dtype.itemsize * count) for count in counts]
        _scatter_numbers(values, part_of_row, _cursors(_addresses(found)))
        return _arrays(kind, counts, found)
    taken = gathered(column, np.argsort(part_of_row, kind="stable"))
    return [taken.slice(stop - count, count) for stop, count in zip(accumulate(counts), counts, strict=True)]


def _arrays(kind: pa.DataType, counts: list[int], buffers: list[pa.Buffer]) -> list[pa.Array]:
    return [pa.Array.from_buffers(kind, count, [None, buffer]) for count, buffer in zip(counts, buffers, strict=True)]


def _addresses(buffers: Sequence[pa.Buffer]) -> list[int]:
    return [buffer.address for buffer in buffers]


def _cursors(*columns: Sequence[int]) -> Array:
    """For each part, a line: how many bytes and values were written to it, and what its loop needs to know of it."""
    idle = (0,) * (_CURSOR - 2 - len(columns))
    return np.array([(0, 0, *of_part, *idle) for of_part in zip(*columns, strict=True)])


@kernel
def _assign(hashes, shift, part_of_bin, part_of_row):
    """The part of each row."""
    single = shift >= 64
    for row in range(len(hashes)):
        part_of_row[row] = part_of_bin[np.uint64(0) if single else hashes[row] >> np.uint64(shift)]


@kernel
def _measure(offsets, part_of_row, sizes):
    """How many bytes the strings of each part have."""
    start = np.int64(offsets[0])
    for row in range(len(part_of_row)):
        stop = np.int64(offsets[row + 1])
        sizes[part_of_row[row]] += stop - start
        start = stop


@kernel
def _scatter_strings(offsets, data, along, part_of_row, cursors):
    """Write each string behind those of its part, and its end, and the word that goes along with it, if any does.

    Whether there was room for all. Whole words are copied: the next string is written over what is too much, and behind
    the last there is room for it.
    """
    begin, start, at = address_of(data), np.int64(offsets[0]), address_of(cursors)
    end, some_along = begin + len(data), len(along) > 0
    for part in range(len(cursors)):
        store(cursors[part, 3], np.int32(0))
    for row in range(len(part_of_row)):
        stop, cursor = np.int64(offsets[row + 1]), at + 8 * _CURSOR * np.int64(part_of_row[row])
        size = stop - start
        written, count = load_i64(cursor), load_i64(cursor + 8)
        if written + size > load_i64(cursor + 40):
            return False
        target = load_i64(cursor + 16) + written
        store(target, load_before(begin + start, end))
        if size > 8:
            copy_rest(target, begin + start, size, end)
        start = stop
        written += size
        store(cursor, written)
        store(cursor + 8, count + 1)
        store(load_i64(cursor + 24) + 4 * count + 4, np.int32(written))
        if some_along:
            store(load_i64(cursor + 32) + 8 * count, along[row])
    return True


@kernel
def _scatter_numbers(values, part_of_row, cursors):
    size, at = values.itemsize, address_of(cursors)
    for row in range(len(values)):
        cursor = at + 8 * _CURSOR * np.int64(part_of_row[row])
        written = load_i64(cursor)
        store(load_i64(cursor + 16) + written, values[row])
        store(cursor, written + size)
