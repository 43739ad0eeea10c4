"""How the rows of a batch are written to the parts that they belong to.

Rows are read in their order, so that memory is read once, from beginning to end. A part has one or several *regions*,
one behind the other, and each is written from beginning to end. How much it takes is known beforehand. So the buffers
of a part can be put where they will be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from framework.wire.columns import PADDING
from routing.columns.compiled import kernel
from routing.columns.keys import HASHES, byte_strings, read_only
from routing.columns.memory import (
    WORD,
    Array,
    address_of,
    copy_exactly,
    copy_rest,
    load_before,
    load_i64,
    prefetch_to_write,
    store,
)
from routing.columns.take import take

NO_HASHES = read_only(np.zeros(0, np.uint64))

_FORESEEN_MAX = 4
"""Strings of so few regions are written as soon without asking for memory beforehand."""

_AHEAD_BYTES = 128
"""So far ahead of what is written memory is asked for: two cache lines."""

_CURSOR = 8
"""The words of a region's cursor: a cache line."""

_LANES = 4
"""Rows are counted in so many places by turns, so that to count one need not wait for the one before."""

_ROW = np.int64(1) << 32
"""One row, in a number whose lower half counts bytes."""

_HASHES = pa.field(HASHES, pa.uint64())
_NO_OFFSETS = read_only(np.zeros(0, np.int32))

Reserve: TypeAlias = Callable[[int, int], memoryview | None]
"""Memory for the buffers of a part, given its number and their size: they are written to it one behind the other, as on
the wire. None if there is no such memory, and the part is to be allocated here."""


def reserve_none(part: int, size: int) -> memoryview | None:
    """All parts are allocated here."""
    return None


def scatter(
    batch: pa.RecordBatch,
    hashes: Array,
    region_of_row: Array,
    parts: int,
    regions: int = 1,
    reserve: Reserve = reserve_none,
) -> list[pa.RecordBatch]:
    """The rows by their parts, of which there are so many; with a column of hashes before the others, if there are any.

    Each part has so many regions, those of the next part being numbered on. The rows of a region keep their order.
    Hashes go along with the first column of strings.
    """
    scatterers = [_scatterer(column, region_of_row, parts, regions) for column in batch.columns]
    texts = [scatterer for scatterer in scatterers if isinstance(scatterer, _Strings)]
    tally = texts[0].tally if texts else _Tally(_NO_OFFSETS, region_of_row, parts, regions)
    if len(batch) in tally.rows:
        whole = batch.add_column(0, _HASHES, pa.array(hashes)) if len(hashes) else batch
        return [whole if count else whole.slice(0, 0) for count in tally.rows]
    sizes = [[8 * count for count in tally.rows]] if len(hashes) else []
    firsts = []
    for scatterer in scatterers:
        firsts.append(len(sizes))
        sizes += scatterer.sizes(tally)
    if any(isinstance(scatterer, _Others) for scatterer in scatterers):
        reserve = reserve_none
    part_buffers = [
        _PartBuffers(part, sizes_of_part, reserve) for part, sizes_of_part in enumerate(zip(*sizes, strict=True))
    ]
    if texts and len(hashes):
        texts[0].along = hashes
    columns = [
        scatterer.scatter(tally, part_buffers, first) for scatterer, first in zip(scatterers, firsts, strict=True)
    ]
    schema = batch.schema
    if len(hashes):
        if not texts:
            _scatter_numbers(hashes, region_of_row, tally.cursors_of_numbers(8, part_buffers, 0))
        columns.insert(0, _arrays(_HASHES.type, tally.rows, part_buffers, slice(0, 1)))
        schema = schema.insert(0, _HASHES)
    return [pa.RecordBatch.from_arrays(list(arrays), schema=schema) for arrays in zip(*columns, strict=True)]


def with_keys(
    batch: pa.RecordBatch, name: str, keys: list[pa.DictionaryArray], part_of_row: Array
) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that each is in; the column `name` is divided already."""
    if batch.num_columns == 1:
        return [pa.RecordBatch.from_arrays([part], [name]) for part in keys]
    index = batch.schema.get_field_index(name)
    others = scatter(batch.remove_column(index), NO_HASHES, part_of_row, len(keys))
    return [part.add_column(index, name, keys_of_part) for part, keys_of_part in zip(others, keys, strict=True)]


def warm_up() -> None:
    """Compile now, before there are records that wait for it."""
    batch = pa.record_batch({"word": ["a", "b"], "number": np.zeros(2, np.int64)})
    for parts in (2, _FORESEEN_MAX + 1):
        scatter(batch, read_only(np.zeros(2, np.uint64)), np.arange(2, dtype=np.uint16), parts)


class _PartBuffers:
    """Where the buffers of a part are: one behind the other, as on the wire."""

    __slots__ = ("addresses", "buffers")

    def __init__(self, part: int, sizes: Sequence[int], reserve: Reserve) -> None:
        starts = [0, *accumulate(map(_padded, sizes))]
        memory = reserve(part, starts[-1])
        memory_of_part = pa.allocate_buffer(starts[-1]) if memory is None else pa.py_buffer(memory)
        first = memory_of_part.address
        self.addresses = [first + start for start in starts]
        self.buffers = [memory_of_part.slice(start, size) for start, size in zip(starts, sizes, strict=False)]


class _Tally:
    """How many rows each part has, and how many bytes their strings; and where in it each of its regions begins."""

    __slots__ = ("_begins", "bytes", "rows")

    def __init__(self, offsets: Array, region_of_row: Array, parts: int, regions: int) -> None:
        self._begins, totals = np.zeros((parts, regions, _CURSOR), np.int64), np.zeros((2, parts), np.int64)
        _tally(offsets, region_of_row, self._begins, totals)
        self.rows, self.bytes = totals.tolist()

    def cursors(self, addresses: list[tuple[int, ...]]) -> Array:
        """For each region, a line: how many bytes and values its part has before what is written next, how many bytes
        up to its end, and where the buffers of its part are."""
        cursors = self._begins.copy()
        cursors[:, :, 3 : 3 + len(addresses[0])] = np.array(addresses)[:, np.newaxis]
        return cursors.reshape(-1, _CURSOR)

    def cursors_of_numbers(self, width: int, part_buffers: list[_PartBuffers], buffer: int) -> Array:
        """The same for values of one size, which go to one buffer."""
        cursors = self.cursors([(part.addresses[buffer],) for part in part_buffers])
        cursors[:, 0] = width * cursors[:, 1]
        return cursors


class _Strings:
    """A column of strings, none of them null, with offsets of 32 bits."""

    __slots__ = ("_data", "_kind", "_offsets", "_region_of_row", "along", "tally")

    def __init__(self, column: pa.Array, region_of_row: Array, parts: int, regions: int) -> None:
        self._kind = column.type
        self._offsets, self._data = byte_strings(column)
        self._region_of_row = region_of_row
        self.tally = _Tally(self._offsets, region_of_row, parts, regions)
        self.along = NO_HASHES
        """What is written to the first buffers of part_buffers meanwhile."""

    def sizes(self, tally: _Tally) -> list[list[int]]:
        """Of each of its buffers, in each part."""
        return [[4 * count + 4 for count in tally.rows], self.tally.bytes]

    def scatter(self, tally: _Tally, part_buffers: list[_PartBuffers], first: int) -> list[pa.Array]:
        """The values of each part, whose buffers are from the `first` on."""
        cursors = self.tally.cursors(
            [(at[first + 1], at[first], at[0]) for at in (part.addresses for part in part_buffers)]
        )
        scatter = _scatter_strings if len(cursors) <= _FORESEEN_MAX else _scatter_strings_widely
        scatter(self._offsets, self._data, self.along, self._region_of_row, cursors)
        return _arrays(self._kind, tally.rows, part_buffers, slice(first, first + 2))


class _Numbers:
    """A column of values of one size, none of them null."""

    __slots__ = ("_kind", "_region_of_row", "_values")

    def __init__(self, column: pa.Array, region_of_row: Array) -> None:
        self._kind = column.type
        self._region_of_row = region_of_row
        width = column.type.bit_width // 8
        self._values = read_only(np.frombuffer(column.buffers()[1], f"u{width}", len(column), column.offset * width))

    def sizes(self, tally: _Tally) -> list[list[int]]:
        """Of its buffer, in each part."""
        return [[self._values.itemsize * count for count in tally.rows]]

    def scatter(self, tally: _Tally, part_buffers: list[_PartBuffers], first: int) -> list[pa.Array]:
        """The values of each part, whose buffer is the `first`."""
        cursors = tally.cursors_of_numbers(self._values.itemsize, part_buffers, first)
        _scatter_numbers(self._values, self._region_of_row, cursors)
        return _arrays(self._kind, tally.rows, part_buffers, slice(first, first + 1))


class _Others:
    """A column of other values: how much memory they take in each part is not known before they are there."""

    __slots__ = ("_column", "_region_of_row")

    def __init__(self, column: pa.Array, region_of_row: Array) -> None:
        self._column = column
        self._region_of_row = region_of_row

    def sizes(self, tally: _Tally) -> list[list[int]]:
        """It has no buffers on part_buffers."""
        return []

    def scatter(self, tally: _Tally, part_buffers: list[_PartBuffers], first: int) -> list[pa.Array]:
        """The values of each part."""
        taken = take(self._column, np.argsort(self._region_of_row, kind="stable"))
        return [taken.slice(stop - rows, rows) for stop, rows in zip(accumulate(tally.rows), tally.rows, strict=True)]


def _scatterer(column: pa.Array, region_of_row: Array, parts: int, regions: int) -> _Strings | _Numbers | _Others:
    kind = column.type
    if column.null_count == 0:
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return _Strings(column, region_of_row, parts, regions)
        if (pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind)) and kind.bit_width in (8, 16, 32, 64):
            return _Numbers(column, region_of_row)
    return _Others(column, region_of_row)


def _arrays(kind: pa.DataType, counts: list[int], part_buffers: list[_PartBuffers], buffers: slice) -> list[pa.Array]:
    return [
        pa.Array.from_buffers(kind, count, [None, *part.buffers[buffers]])
        for part, count in zip(part_buffers, counts, strict=True)
    ]


def _padded(size: int) -> int:
    return -(-size // PADDING) * PADDING


@kernel
def _tally(offsets, region_of_row, begins, totals):
    """What `_Tally` says, of rows whose strings lie between offsets, if there are any."""
    parts, regions, _ = begins.shape
    lanes, some = np.zeros((_LANES, parts * regions), np.int64), len(offsets) > 0
    first = address_of(lanes)
    for index in range(len(region_of_row)):
        row = np.uint64(index)
        at = first + 8 * (parts * regions * (index % _LANES) + np.int64(region_of_row[row]))
        size = np.int64(offsets[row + np.uint64(1)]) - np.int64(offsets[row]) if some else np.int64(0)
        store(at, load_i64(at) + (_ROW + size))
    for part in range(parts):
        rows, size = np.int64(0), np.int64(0)
        for region in range(regions):
            counted = lanes[:, part * regions + region].sum()
            begins[part, region, :3] = size, rows, size + counted % _ROW
            rows, size = rows + counted // _ROW, size + counted % _ROW
        totals[0, part], totals[1, part] = rows, size


def _scattering_strings(ask: bool) -> Any:
    """What writes each string behind those of its region, and where it ends, and the word that goes along with it, if
    any does.

    Whole words are copied, for the next string is written over what is too much; except where a region ends.
    """

    @kernel
    def scatter(offsets, data, along, region_of_row, cursors):
        begin, start, at = address_of(data), np.int64(offsets[0]), address_of(cursors)
        end, some_along = begin + len(data), len(along) > 0
        for region in range(len(cursors)):
            store(cursors[region, 4], np.int32(0))
        for index in range(len(region_of_row)):
            row = np.uint64(index)  # which cannot be negative, and need not be looked at for that
            stop, cursor = np.int64(offsets[row + np.uint64(1)]), at + 8 * _CURSOR * np.int64(region_of_row[row])
            size = stop - start
            written, count = load_i64(cursor), load_i64(cursor + 8)
            target = load_i64(cursor + 24) + written
            written += size
            if written + WORD > load_i64(cursor + 16):
                copy_exactly(target, begin + start, size)
            else:
                store(target, load_before(begin + start, end))
                if size > 8:
                    copy_rest(target, begin + start, size, end)
            start = stop
            store(cursor, written)
            store(cursor + 8, count + 1)
            target_of_end = load_i64(cursor + 32) + 4 * count + 4
            store(target_of_end, np.int32(written))
            if ask:
                prefetch_to_write(target + _AHEAD_BYTES)
                prefetch_to_write(target_of_end + _AHEAD_BYTES)
            if some_along:
                target_along = load_i64(cursor + 40) + 8 * count
                store(target_along, along[row])
                if ask:
                    prefetch_to_write(target_along + _AHEAD_BYTES)

    return scatter


_scatter_strings, _scatter_strings_widely = _scattering_strings(ask=False), _scattering_strings(ask=True)


@kernel
def _scatter_numbers(values, region_of_row, cursors):
    size, at = values.itemsize, address_of(cursors)
    for row in range(len(values)):
        cursor = at + 8 * _CURSOR * np.int64(region_of_row[row])
        written = load_i64(cursor)
        target = load_i64(cursor + 24) + written
        store(target, values[row])
        store(cursor, written + size)
        prefetch_to_write(target + _AHEAD_BYTES)
