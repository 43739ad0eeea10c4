"""How the rows of a batch are written to the parts that they belong to.

Rows are read in their order, so that memory is read once, from beginning to end, and each part is written from
beginning to end. How much each part takes is known beforehand. So its buffers can be put where they will be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from framework.wire.columns import PADDING
from routing.columns.compiled import inlined, kernel
from routing.columns.gathering import gathered
from routing.columns.keys import HASHES, byte_strings, sealed
from routing.columns.memory import (
    WORD,
    Array,
    address_of,
    copy_rest,
    load_before,
    load_i64,
    prefetch_to_write,
    store,
)

COMPARED_MAX = 8
"""Rows of so few parts are counted part by part."""

NO_HASHES = sealed(np.zeros(0, np.uint64))

AT_ONCE = 4096
"""So many rows are gone through several times before the next ones are, while the processor has them near."""

_FORESEEN_MAX = 4
"""Strings of so few parts are written as soon without asking for memory beforehand."""

_AHEAD_BYTES = 128
"""So far ahead of what is written memory is asked for: two cache lines."""

_CURSOR = 8
"""The words of a part's cursor: a cache line."""

_HASHES = pa.field(HASHES, pa.uint64())
_NO_OFFSETS = sealed(np.zeros(0, np.int32))

Room: TypeAlias = Callable[[int, int], memoryview | None]
"""Where the part of this number, of so many bytes, had best be written: its buffers one behind the other, as on the
wire. None if no place is better than any other."""


def nowhere(part: int, size: int) -> memoryview | None:
    """No place is better than any other."""
    return None


def dealt(
    batch: pa.RecordBatch, hashes: Array, part_of_row: Array, parts: int, room: Room = nowhere
) -> list[pa.RecordBatch]:
    """The rows by their parts, of which there are so many; with a column of hashes before the others, if there are any.

    Hashes go along with the first column of strings.
    """
    dealers = [_dealer(column, part_of_row, parts) for column in batch.columns]
    texts = [dealer for dealer in dealers if isinstance(dealer, _Strings)]
    counts = texts[0].counts if texts else _tallied(_NO_OFFSETS, part_of_row, parts)[0]
    if len(batch) in counts:
        whole = batch.add_column(0, _HASHES, pa.array(hashes)) if len(hashes) else batch
        return [whole if count else whole.slice(0, 0) for count in counts]
    sizes = [[8 * count for count in counts]] if len(hashes) else []
    firsts = []
    for dealer in dealers:
        firsts.append(len(sizes))
        sizes += dealer.sizes(counts)
    if any(isinstance(dealer, _Others) for dealer in dealers):
        room = nowhere
    shelves = [_Shelf(part, sizes_of_part, room) for part, sizes_of_part in enumerate(zip(*sizes, strict=True))]
    if texts and len(hashes):
        texts[0].along = hashes
    columns = [dealer.dealt(counts, shelves, first) for dealer, first in zip(dealers, firsts, strict=True)]
    schema = batch.schema
    if len(hashes):
        if not texts:
            _scatter_numbers(hashes, part_of_row, _cursors([(shelf.addresses[0],) for shelf in shelves]))
        columns.insert(0, _arrays(_HASHES.type, counts, shelves, slice(0, 1)))
        schema = schema.insert(0, _HASHES)
    return [pa.RecordBatch.from_arrays(list(arrays), schema=schema) for arrays in zip(*columns, strict=True)]


def with_keys(
    batch: pa.RecordBatch, name: str, keys: list[pa.DictionaryArray], part_of_row: Array
) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that each is in; the column `name` is divided already."""
    if batch.num_columns == 1:
        return [pa.RecordBatch.from_arrays([part], [name]) for part in keys]
    index = batch.schema.get_field_index(name)
    others = dealt(batch.remove_column(index), NO_HASHES, part_of_row, len(keys))
    return [part.add_column(index, name, keys_of_part) for part, keys_of_part in zip(others, keys, strict=True)]


def warm_up() -> None:
    """Compile now, before there are records that wait for it."""
    batch = pa.record_batch({"word": ["a", "b"], "number": np.zeros(2, np.int64)})
    for parts in (2, COMPARED_MAX + 1):
        dealt(batch, sealed(np.zeros(2, np.uint64)), np.arange(2, dtype=np.uint16), parts)


class _Shelf:
    """Where the buffers of a part are: one behind the other, as on the wire."""

    __slots__ = ("addresses", "buffers")

    def __init__(self, part: int, sizes: Sequence[int], room: Room) -> None:
        starts = [0, *accumulate(map(_padded, sizes))]
        whole = starts[-1] + WORD  # strings are written in whole words
        memory = room(part, whole)
        shelf = pa.allocate_buffer(whole) if memory is None else pa.py_buffer(memory)
        first = shelf.address
        self.addresses = [first + start for start in starts]
        self.buffers = [shelf.slice(start, size) for start, size in zip(starts, sizes, strict=False)]


class _Strings:
    """A column of strings, none of them null, with offsets of 32 bits."""

    __slots__ = ("_bytes", "_data", "_kind", "_offsets", "_part_of_row", "along", "counts")

    def __init__(self, column: pa.Array, part_of_row: Array, parts: int) -> None:
        self._kind = column.type
        self._offsets, self._data = byte_strings(column)
        self._part_of_row = part_of_row
        self.counts, self._bytes = _tallied(self._offsets, part_of_row, parts)
        self.along = NO_HASHES
        """What is written to the first buffers of shelves meanwhile."""

    def sizes(self, counts: list[int]) -> list[list[int]]:
        """Of each of its buffers, in each part."""
        return [[4 * count + 4 for count in counts], self._bytes]

    def dealt(self, counts: list[int], shelves: list[_Shelf], first: int) -> list[pa.Array]:
        """The values of each part, whose buffers are from the `first` on."""
        cursors = _cursors([(at[first + 1], at[first], at[0]) for at in (shelf.addresses for shelf in shelves)])
        scatter = _scatter_strings if len(shelves) <= _FORESEEN_MAX else _scatter_strings_widely
        scatter(self._offsets, self._data, self.along, self._part_of_row, cursors)
        return _arrays(self._kind, counts, shelves, slice(first, first + 2))


class _Numbers:
    """A column of values of one size, none of them null."""

    __slots__ = ("_kind", "_part_of_row", "_values")

    def __init__(self, column: pa.Array, part_of_row: Array) -> None:
        self._kind = column.type
        self._part_of_row = part_of_row
        width = column.type.bit_width // 8
        self._values = sealed(np.frombuffer(column.buffers()[1], f"u{width}", len(column), column.offset * width))

    def sizes(self, counts: list[int]) -> list[list[int]]:
        """Of its buffer, in each part."""
        return [[self._values.itemsize * count for count in counts]]

    def dealt(self, counts: list[int], shelves: list[_Shelf], first: int) -> list[pa.Array]:
        """The values of each part, whose buffer is the `first`."""
        _scatter_numbers(self._values, self._part_of_row, _cursors([(shelf.addresses[first],) for shelf in shelves]))
        return _arrays(self._kind, counts, shelves, slice(first, first + 1))


class _Others:
    """A column of other values: how much memory they take in each part is not known before they are there."""

    __slots__ = ("_column", "_part_of_row")

    def __init__(self, column: pa.Array, part_of_row: Array) -> None:
        self._column = column
        self._part_of_row = part_of_row

    def sizes(self, counts: list[int]) -> list[list[int]]:
        """It has no buffers on shelves."""
        return []

    def dealt(self, counts: list[int], shelves: list[_Shelf], first: int) -> list[pa.Array]:
        """The values of each part."""
        taken = gathered(self._column, np.argsort(self._part_of_row, kind="stable"))
        return [taken.slice(stop - count, count) for stop, count in zip(accumulate(counts), counts, strict=True)]


def _dealer(column: pa.Array, part_of_row: Array, parts: int) -> _Strings | _Numbers | _Others:
    kind = column.type
    if column.null_count == 0:
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return _Strings(column, part_of_row, parts)
        if (pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind)) and kind.bit_width in (8, 16, 32, 64):
            return _Numbers(column, part_of_row)
    return _Others(column, part_of_row)


def _tallied(offsets: Array, part_of_row: Array, parts: int) -> tuple[list[int], list[int]]:
    """How many rows each part has, and how many bytes their strings, if there are any."""
    tally = np.zeros((2, parts), np.int64)
    if parts > COMPARED_MAX:
        _tally(offsets, part_of_row, tally)
    else:
        _tally_compared(offsets, part_of_row, tally)
    counts, sizes = tally.tolist()
    return counts, sizes


def _arrays(kind: pa.DataType, counts: list[int], shelves: list[_Shelf], buffers: slice) -> list[pa.Array]:
    return [
        pa.Array.from_buffers(kind, count, [None, *shelf.buffers[buffers]])
        for shelf, count in zip(shelves, counts, strict=True)
    ]


def _padded(size: int) -> int:
    return -(-size // PADDING) * PADDING


def _cursors(addresses: list[tuple[int, ...]]) -> Array:
    """For each part, a line: how many bytes and values were written to it, and where they go."""
    cursors = np.zeros((len(addresses), _CURSOR), np.int64)
    cursors[:, 2 : 2 + len(addresses[0])] = addresses
    return cursors


@kernel
def _tally(offsets, part_of_row, tally):
    """How many rows each part has, and how many bytes their strings."""
    for row in range(len(part_of_row)):
        tally[0, part_of_row[row]] += 1
    for row in range(len(offsets) - 1):
        tally[1, part_of_row[row]] += np.int64(offsets[row + 1]) - np.int64(offsets[row])


@kernel
def _tally_compared(offsets, part_of_row, tally):
    """The same, part by part: to compare all rows at once is quicker than to add to one number after the other, where
    each has to wait for the one before. The first part has what the others have not."""
    rows, parts = len(part_of_row), tally.shape[1]
    for start in range(0, rows, AT_ONCE):
        stop = min(start + AT_ONCE, rows)
        some = part_of_row[start:stop]
        ends = offsets[start : stop + 1]
        for part in range(1, parts):
            tally[0, part] += _count(some, np.uint16(part))
            tally[1, part] += _size(ends, some, np.uint16(part))
    tally[0, 0] = rows - tally[0, 1:].sum()
    if len(offsets):
        tally[1, 0] = np.int64(offsets[rows]) - np.int64(offsets[0]) - tally[1, 1:].sum()


@inlined
def _count(part_of_row, part):
    """How many rows a part has, of fewer than 2 ** 16."""
    count = np.uint16(0)
    for row in range(len(part_of_row)):
        count += np.uint16(part_of_row[row] == part)
    return count


@inlined
def _size(offsets, part_of_row, part):
    """How many bytes the strings of a part have."""
    size = np.int32(0)
    for row in range(len(offsets) - 1):
        size += np.int32(offsets[row + 1] - offsets[row]) if part_of_row[row] == part else np.int32(0)
    return size


def _scattering_strings(ask: bool) -> Any:
    """What writes each string behind those of its part, and its end, and the word that goes along with it, if any does.

    Whole words are copied: the next string is written over what is too much, and behind the last there is room for it.
    """

    @kernel
    def scatter(offsets, data, along, part_of_row, cursors):
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
            target_of_end = load_i64(cursor + 24) + 4 * count + 4
            store(target_of_end, np.int32(written))
            if ask:
                prefetch_to_write(target + _AHEAD_BYTES)
                prefetch_to_write(target_of_end + _AHEAD_BYTES)
            if some_along:
                target_along = load_i64(cursor + 32) + 8 * count
                store(target_along, along[row])
                if ask:
                    prefetch_to_write(target_along + _AHEAD_BYTES)

    return scatter


_scatter_strings, _scatter_strings_widely = _scattering_strings(ask=False), _scattering_strings(ask=True)


@kernel
def _scatter_numbers(values, part_of_row, cursors):
    size, at = values.itemsize, address_of(cursors)
    for row in range(len(values)):
        cursor = at + 8 * _CURSOR * np.int64(part_of_row[row])
        written = load_i64(cursor)
        target = load_i64(cursor + 16) + written
        store(target, values[row])
        store(cursor, written + size)
        prefetch_to_write(target + _AHEAD_BYTES)
