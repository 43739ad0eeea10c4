"""How the rows of a batch are written to the parts that they belong to.

Rows are read in their order, so that memory is read once, from beginning to end, and each part is written from
beginning to end. How much each part takes is known beforehand. So its buffers can be put where they will be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from framework.wire.columns import PADDING
from routing.columns.compiled import kernel
from routing.columns.gathering import gathered
from routing.columns.keys import HASHES, byte_strings, sealed
from routing.columns.memory import WORD, Array, address_of, copy_rest, load_before, load_i64, store

COMPARED_MAX = 8
"""Rows of so few parts are counted part by part."""

NO_HASHES = sealed(np.zeros(0, np.uint64))

_CURSOR = 8
"""The words of a part's cursor: a cache line."""

_HASHES = pa.field(HASHES, pa.uint64())

Room: TypeAlias = Callable[[int, int], memoryview | None]
"""Where the part of this number, of so many bytes, had best be written: its buffers one behind the other, as on the
wire. None if no place is better than any other."""


def nowhere(part: int, size: int) -> memoryview | None:
    """No place is better than any other."""
    return None


def dealt(
    batch: pa.RecordBatch, hashes: Array, part_of_row: Array, counts: list[int], room: Room = nowhere
) -> list[pa.RecordBatch]:
    """The rows by their parts, of which each has so many; with a column of hashes before the others, if there are any.

    Hashes go along with the first column of strings.
    """
    dealers = [_Dealer(column, part_of_row, counts) for column in batch.columns]
    shelves = _shelves(dealers, counts, 8 if len(hashes) else 0, room)
    if not len(hashes):
        columns = [dealer.dealt(shelves) for dealer in dealers]
        return [pa.RecordBatch.from_arrays(list(arrays), schema=batch.schema) for arrays in zip(*columns, strict=True)]
    hashed = [shelf.take(8 * count) for shelf, count in zip(shelves, counts, strict=True)]
    waiting = hashes
    columns = [_arrays(_HASHES.type, counts, hashed)]
    for dealer in dealers:
        columns.append(dealer.dealt(shelves, waiting, hashed))
        waiting = NO_HASHES if dealer.is_text else waiting
    if len(waiting):
        _scatter_numbers(hashes, part_of_row, _cursors(_addresses(hashed)))
    schema = batch.schema.insert(0, _HASHES)
    return [pa.RecordBatch.from_arrays(list(arrays), schema=schema) for arrays in zip(*columns, strict=True)]


def with_keys(
    batch: pa.RecordBatch, name: str, keys: list[pa.DictionaryArray], part_of_row: Array
) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that each is in; the column `name` is divided already."""
    counts, names = [len(part) for part in keys], batch.schema.names
    shelves = [_Shelf() for _ in counts]
    columns = [keys if one == name else _Dealer(batch.column(one), part_of_row, counts).dealt(shelves) for one in names]
    return [pa.RecordBatch.from_arrays(list(arrays), names) for arrays in zip(*columns, strict=True)]


def warm_up() -> None:
    """Compile now, before there are records that wait for it."""
    batch = pa.record_batch({"word": ["a", "b"], "number": np.zeros(2, np.int64)})
    for others in (0, COMPARED_MAX):
        dealt(batch, sealed(np.zeros(2, np.uint64)), np.arange(2, dtype=np.uint16), [1, 1] + [0] * others)


class _Shelf:
    """Where the buffers of a part go: one behind the other, as on the wire, if there is a room; else anywhere."""

    __slots__ = ("_next", "_room")

    def __init__(self, room: memoryview | None = None) -> None:
        self._room = None if room is None else pa.py_buffer(room)
        self._next = 0

    def take(self, size: int, beyond: int = 0) -> pa.Buffer:
        """The next buffer. So many bytes beyond it may be written to before the one behind it is."""
        if self._room is None:
            return pa.allocate_buffer(size + beyond)
        start, self._next = self._next, self._next + _padded(size)
        return self._room.slice(start, size)


def _shelves(dealers: list[_Dealer], counts: list[int], width: int, room: Room) -> list[_Shelf]:
    """For each part; its rows have `width` bytes beside those of the dealers' columns."""
    if room is nowhere or not all(dealer.knows_sizes for dealer in dealers):
        return [_Shelf() for _ in counts]
    return [
        _Shelf(room(part, _padded(width * count) + sum(dealer.size(part) for dealer in dealers) + WORD))
        for part, count in enumerate(counts)
    ]


class _Dealer:
    """Deals out the values of a column to parts."""

    __slots__ = ("_column", "_counts", "_part_of_row", "_sizes", "_strings", "_width", "is_text")

    def __init__(self, column: pa.Array, part_of_row: Array, counts: list[int]) -> None:
        kind = column.type
        self._column = column
        self._part_of_row = part_of_row
        self._counts = counts
        self._width = 0
        self.is_text = bool(column.null_count == 0 and (pa.types.is_string(kind) or pa.types.is_binary(kind)))
        """Whether it has strings, none of them null, with offsets of 32 bits."""
        if self.is_text:
            self._strings = byte_strings(column)
            self._sizes = _measured(self._strings[0], part_of_row, len(counts))
        elif column.null_count == 0 and (pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind)):
            self._width = kind.bit_width // 8 if kind.bit_width in (8, 16, 32, 64) else 0

    @property
    def knows_sizes(self) -> bool:
        """Whether it is known what parts take before they are there."""
        return self.is_text or self._width > 0

    def size(self, part: int) -> int:
        """The bytes that a part takes."""
        count = self._counts[part]
        return _padded(4 * count + 4) + _padded(self._sizes[part]) if self.is_text else _padded(self._width * count)

    def dealt(
        self, shelves: list[_Shelf], along: Array = NO_HASHES, hashed: Sequence[pa.Buffer] = ()
    ) -> list[pa.Array]:
        """The column's values by their parts; with strings, other words go `along`."""
        counts = self._counts
        if self.is_text:
            return self._strings_dealt(shelves, along, hashed)
        if self._width:
            column, dtype = self._column, np.dtype(f"u{self._width}")
            values = sealed(np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize))
            found = [shelf.take(self._width * count) for shelf, count in zip(shelves, counts, strict=True)]
            _scatter_numbers(values, self._part_of_row, _cursors(_addresses(found)))
            return _arrays(column.type, counts, found)
        taken = gathered(self._column, np.argsort(self._part_of_row, kind="stable"))
        return [taken.slice(stop - count, count) for stop, count in zip(accumulate(counts), counts, strict=True)]

    def _strings_dealt(self, shelves: list[_Shelf], along: Array, hashed: Sequence[pa.Buffer]) -> list[pa.Array]:
        counts, kind = self._counts, self._column.type
        ends, octets = [], []
        for shelf, count, size in zip(shelves, counts, self._sizes, strict=True):
            ends.append(shelf.take(4 * count + 4))
            octets.append(shelf.take(size, WORD))
        along_at = _addresses(hashed) if len(along) else [0] * len(counts)
        offsets, data = self._strings
        cursors = _cursors(_addresses(octets), _addresses(ends), along_at)
        _scatter_strings(offsets, data, along, self._part_of_row, cursors)
        return [
            pa.Array.from_buffers(kind, count, [None, end, octet])
            for count, end, octet in zip(counts, ends, octets, strict=True)
        ]


def _measured(offsets: Array, part_of_row: Array, parts: int) -> list[int]:
    """How many bytes the strings of each part have."""
    sizes = np.zeros(parts, np.int64)
    if parts > COMPARED_MAX:
        _measure(offsets, part_of_row, sizes)
    else:
        _measure_compared(offsets, part_of_row, sizes)
    return list(sizes.tolist())


def _arrays(kind: pa.DataType, counts: list[int], buffers: list[pa.Buffer]) -> list[pa.Array]:
    return [pa.Array.from_buffers(kind, count, [None, buffer]) for count, buffer in zip(counts, buffers, strict=True)]


def _padded(size: int) -> int:
    return -(-size // PADDING) * PADDING


def _addresses(buffers: Sequence[pa.Buffer]) -> list[int]:
    return [buffer.address for buffer in buffers]


def _cursors(*columns: Sequence[int]) -> Array:
    """For each part, a line: how many bytes and values were written to it, and what its loop needs to know of it."""
    idle = (0,) * (_CURSOR - 2 - len(columns))
    return np.array([(0, 0, *of_part, *idle) for of_part in zip(*columns, strict=True)])


@kernel
def _measure(offsets, part_of_row, sizes):
    """How many bytes the strings of each part have."""
    start = np.int64(offsets[0])
    for row in range(len(part_of_row)):
        stop = np.int64(offsets[row + 1])
        sizes[part_of_row[row]] += stop - start
        start = stop


@kernel
def _measure_compared(offsets, part_of_row, sizes):
    """The same, part by part: to compare all rows at once is quicker than to add to one size after the other."""
    rows, others = len(part_of_row), np.int64(0)
    for part in range(1, len(sizes)):
        size = np.int64(0)
        for row in range(rows):
            size += np.int64(offsets[row + 1] - offsets[row]) if part_of_row[row] == part else np.int64(0)
        sizes[part] = size
        others += size
    sizes[0] = np.int64(offsets[rows]) - np.int64(offsets[0]) - others


@kernel
def _scatter_strings(offsets, data, along, part_of_row, cursors):
    """Write each string behind those of its part, and its end, and the word that goes along with it, if any does.

    Whole words are copied: the next string is written over what is too much, and behind the last there is room for it.
    """
    begin, start, at = address_of(data), np.int64(offsets[0]), address_of(cursors)
    end, some_along = begin + len(data), len(along) > 0
    for part in range(len(cursors)):
        store(cursors[part, 3], np.int32(0))
    for index in range(len(part_of_row)):
        row = np.uint64(index)  # which cannot be negative, and need not be looked at for that
        stop, cursor = np.int64(offsets[row + np.uint64(1)]), at + 8 * _CURSOR * np.int64(part_of_row[row])
        size = stop - start
        written, count = load_i64(cursor), load_i64(cursor + 8)
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


@kernel
def _scatter_numbers(values, part_of_row, cursors):
    size, at = values.itemsize, address_of(cursors)
    for row in range(len(values)):
        cursor = at + 8 * _CURSOR * np.int64(part_of_row[row])
        written = load_i64(cursor)
        store(load_i64(cursor + 16) + written, values[row])
        store(cursor, written + size)
