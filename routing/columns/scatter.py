"""The scatter of a radix partition: the rows of a batch are written to the parts that they belong to.

A first pass makes a histogram of the rows and bytes of each *region*, of which a part has one or several, one behind
the other. Its prefix sums are where each region begins. A second pass reads the rows in their order and appends each to
its region, so that the batch is read, and each region written, sequentially. The size of a part is known before it is
written, so its buffers can be allocated where they are needed: in memory of the worker that it goes to.
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

_UNPREFETCHED_REGIONS_MAX = 4
"""Up to this many regions, strings are scattered as fast without write prefetches."""

_PREFETCH_BYTES = 128
"""How far ahead of a write memory is prefetched: two cache lines."""

_CURSOR_WORDS = 8
"""A region's cursor takes a cache line, so that all a row needs of it is there."""

_BYTES_AT, _ROWS_AT, _END_AT, _VALUES_AT, _OFFSETS_AT, _HASHES_AT = range(0, 48, 8)
"""Where in a cursor, in bytes, its words are: how many bytes and rows its part has before the next write, how many
bytes up to the region's end, and the addresses of the part's buffers."""

_LANES = 4
"""Rows are counted in this many histograms in turn, so that an increment need not wait for the store before it."""

_ONE_ROW = np.int64(1) << 32
"""A row, in a word whose upper half counts rows and whose lower half counts bytes."""

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
    """The rows by their parts, with a column of hashes before the others if there are any.

    Each part has this number of regions; those of the next part are numbered on. The rows of a region keep their order.
    Hashes are scattered in one pass with the first column of strings.
    """
    scatterers = [_scatterer(column, region_of_row, parts, regions) for column in batch.columns]
    strings = [scatterer for scatterer in scatterers if isinstance(scatterer, _Strings)]
    histogram = strings[0].histogram if strings else _Histogram(_NO_OFFSETS, region_of_row, parts, regions)
    if len(batch) in histogram.rows:
        whole = batch.add_column(0, _HASHES, pa.array(hashes)) if len(hashes) else batch
        return [whole if count else whole.slice(0, 0) for count in histogram.rows]
    sizes = [[8 * count for count in histogram.rows]] if len(hashes) else []
    first_buffers = []
    for scatterer in scatterers:
        first_buffers.append(len(sizes))
        sizes += scatterer.sizes(histogram)
    if any(isinstance(scatterer, _Others) for scatterer in scatterers):
        reserve = reserve_none
    part_buffers = [
        _PartBuffers(part, sizes_of_part, reserve) for part, sizes_of_part in enumerate(zip(*sizes, strict=True))
    ]
    if strings and len(hashes):
        strings[0].hashes = hashes
    columns = [
        scatterer.scatter(histogram, part_buffers, first)
        for scatterer, first in zip(scatterers, first_buffers, strict=True)
    ]
    schema = batch.schema
    if len(hashes):
        if not strings:
            _scatter_numbers(hashes, region_of_row, histogram.cursors_of_numbers(8, part_buffers, 0))
        columns.insert(0, _arrays(_HASHES.type, histogram.rows, part_buffers, slice(0, 1)))
        schema = schema.insert(0, _HASHES)
    return [pa.RecordBatch.from_arrays(list(arrays), schema=schema) for arrays in zip(*columns, strict=True)]


def with_keys(
    batch: pa.RecordBatch, name: str, keys: list[pa.DictionaryArray], part_of_row: Array
) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that each is in; the column `name` has been divided already."""
    if batch.num_columns == 1:
        return [pa.RecordBatch.from_arrays([part], [name]) for part in keys]
    index = batch.schema.get_field_index(name)
    others = scatter(batch.remove_column(index), NO_HASHES, part_of_row, len(keys))
    return [part.add_column(index, name, keys_of_part) for part, keys_of_part in zip(others, keys, strict=True)]


def warm_up() -> None:
    """Compile now, before there are records that wait for it."""
    batch = pa.record_batch({"word": ["a", "b"], "number": np.zeros(2, np.int64)})
    for parts in (2, _UNPREFETCHED_REGIONS_MAX + 1):
        scatter(batch, read_only(np.zeros(2, np.uint64)), np.arange(2, dtype=np.uint16), parts)


class _PartBuffers:
    """The buffers of a part: one behind the other, as on the wire."""

    __slots__ = ("addresses", "buffers")

    def __init__(self, part: int, sizes: Sequence[int], reserve: Reserve) -> None:
        starts = [0, *accumulate(map(_padded, sizes))]
        memory = reserve(part, starts[-1])
        whole = pa.allocate_buffer(starts[-1]) if memory is None else pa.py_buffer(memory)
        self.addresses = [whole.address + start for start in starts]
        self.buffers = [whole.slice(start, size) for start, size in zip(starts, sizes, strict=False)]


class _Histogram:
    """The number of rows of each part and of the bytes of their strings; and where each region of it begins."""

    __slots__ = ("_begins", "bytes", "rows")

    def __init__(self, offsets: Array, region_of_row: Array, parts: int, regions: int) -> None:
        self._begins, totals = np.zeros((parts, regions, _CURSOR_WORDS), np.int64), np.zeros((2, parts), np.int64)
        _count(offsets, region_of_row, self._begins, totals)
        self.rows, self.bytes = totals.tolist()

    def cursors(self, addresses: list[tuple[int, ...]]) -> Array:
        """A cursor for each region, with these addresses of the buffers of each part."""
        cursors, first = self._begins.copy(), _VALUES_AT // 8
        cursors[:, :, first : first + len(addresses[0])] = np.array(addresses)[:, np.newaxis]
        return cursors.reshape(-1, _CURSOR_WORDS)

    def cursors_of_numbers(self, width: int, part_buffers: list[_PartBuffers], buffer: int) -> Array:
        """The same for values of a fixed width, which go to one buffer."""
        cursors = self.cursors([(part.addresses[buffer],) for part in part_buffers])
        cursors[:, _BYTES_AT // 8] = width * cursors[:, _ROWS_AT // 8]
        return cursors


class _Strings:
    """A column of strings, none of them null, with offsets of 32 bits."""

    __slots__ = ("_data", "_kind", "_offsets", "_region_of_row", "hashes", "histogram")

    def __init__(self, column: pa.Array, region_of_row: Array, parts: int, regions: int) -> None:
        self._kind = column.type
        self._offsets, self._data = byte_strings(column)
        self._region_of_row = region_of_row
        self.histogram = _Histogram(self._offsets, region_of_row, parts, regions)
        self.hashes = NO_HASHES
        """Written to the first buffer of each part in the same pass."""

    def sizes(self, histogram: _Histogram) -> list[list[int]]:
        """Of each of its buffers, in each part."""
        return [[4 * count + 4 for count in histogram.rows], self.histogram.bytes]

    def scatter(self, histogram: _Histogram, part_buffers: list[_PartBuffers], first: int) -> list[pa.Array]:
        """The values of each part, in its buffers from the `first` on."""
        cursors = self.histogram.cursors(
            [(at[first + 1], at[first], at[0]) for at in (part.addresses for part in part_buffers)]
        )
        few = len(cursors) <= _UNPREFETCHED_REGIONS_MAX
        scatter = _scatter_strings if few else _scatter_strings_prefetching
        scatter(self._offsets, self._data, self.hashes, self._region_of_row, cursors)
        return _arrays(self._kind, histogram.rows, part_buffers, slice(first, first + 2))


class _Numbers:
    """A column of fixed-width values, none of them null."""

    __slots__ = ("_kind", "_region_of_row", "_values")

    def __init__(self, column: pa.Array, region_of_row: Array) -> None:
        self._kind = column.type
        self._region_of_row = region_of_row
        width = column.type.bit_width // 8
        self._values = read_only(np.frombuffer(column.buffers()[1], f"u{width}", len(column), column.offset * width))

    def sizes(self, histogram: _Histogram) -> list[list[int]]:
        """Of its buffer, in each part."""
        return [[self._values.itemsize * count for count in histogram.rows]]

    def scatter(self, histogram: _Histogram, part_buffers: list[_PartBuffers], first: int) -> list[pa.Array]:
        """The values of each part, in its `first` buffer."""
        cursors = histogram.cursors_of_numbers(self._values.itemsize, part_buffers, first)
        _scatter_numbers(self._values, self._region_of_row, cursors)
        return _arrays(self._kind, histogram.rows, part_buffers, slice(first, first + 1))


class _Others:
    """A column of other values, which is sorted by `take`: their size in each part is not known beforehand."""

    __slots__ = ("_column", "_region_of_row")

    def __init__(self, column: pa.Array, region_of_row: Array) -> None:
        self._column = column
        self._region_of_row = region_of_row

    def sizes(self, histogram: _Histogram) -> list[list[int]]:
        """Of none: Arrow allocates them."""
        return []

    def scatter(self, histogram: _Histogram, part_buffers: list[_PartBuffers], first: int) -> list[pa.Array]:
        """The values of each part."""
        taken = take(self._column, np.argsort(self._region_of_row, kind="stable"))
        return [
            taken.slice(stop - rows, rows)
            for stop, rows in zip(accumulate(histogram.rows), histogram.rows, strict=True)
        ]


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
def _count(offsets, region_of_row, begins, totals):
    """The histogram of rows, and of the strings between offsets if there are any; its prefix sums are the `begins`."""
    parts, regions, _ = begins.shape
    lanes, has_strings = np.zeros((_LANES, parts * regions), np.int64), len(offsets) > 0
    first = address_of(lanes)
    for index in range(len(region_of_row)):
        row = np.uint64(index)
        at = first + 8 * (parts * regions * (index % _LANES) + np.int64(region_of_row[row]))
        size = np.int64(offsets[row + np.uint64(1)]) - np.int64(offsets[row]) if has_strings else np.int64(0)
        store(at, load_i64(at) + (_ONE_ROW + size))
    for part in range(parts):
        rows, size = np.int64(0), np.int64(0)
        for region in range(regions):
            counted = lanes[:, part * regions + region].sum()
            begins[part, region, :3] = size, rows, size + counted % _ONE_ROW
            rows, size = rows + counted // _ONE_ROW, size + counted % _ONE_ROW
        totals[0, part], totals[1, part] = rows, size


def _string_scatterer(*, prefetches: bool) -> Any:
    """The kernel that appends each string to its region, with its end offset, and its hash if there are any.

    Whole words are copied, since the next string overwrites what is too much; except where a region ends.
    """

    @kernel
    def scatter(offsets, data, hashes, region_of_row, cursors):
        begin, start, first_cursor = address_of(data), np.int64(offsets[0]), address_of(cursors)
        end, has_hashes = begin + len(data), len(hashes) > 0
        for region in range(len(cursors)):
            store(cursors[region, _OFFSETS_AT // 8], np.int32(0))
        for index in range(len(region_of_row)):
            row = np.uint64(index)  # unsigned: numba adds no code for negative indices
            stop = np.int64(offsets[row + np.uint64(1)])
            cursor = first_cursor + 8 * _CURSOR_WORDS * np.int64(region_of_row[row])
            size = stop - start
            written, rows = load_i64(cursor + _BYTES_AT), load_i64(cursor + _ROWS_AT)
            target = load_i64(cursor + _VALUES_AT) + written
            written += size
            if written + WORD > load_i64(cursor + _END_AT):
                copy_exactly(target, begin + start, size)
            else:
                store(target, load_before(begin + start, end))
                if size > 8:
                    copy_rest(target, begin + start, size, end)
            start = stop
            store(cursor + _BYTES_AT, written)
            store(cursor + _ROWS_AT, rows + 1)
            offset_target = load_i64(cursor + _OFFSETS_AT) + 4 * rows + 4
            store(offset_target, np.int32(written))
            if prefetches:
                prefetch_to_write(target + _PREFETCH_BYTES)
                prefetch_to_write(offset_target + _PREFETCH_BYTES)
            if has_hashes:
                hash_target = load_i64(cursor + _HASHES_AT) + 8 * rows
                store(hash_target, hashes[row])
                if prefetches:
                    prefetch_to_write(hash_target + _PREFETCH_BYTES)

    return scatter


_scatter_strings = _string_scatterer(prefetches=False)
_scatter_strings_prefetching = _string_scatterer(prefetches=True)


@kernel
def _scatter_numbers(values, region_of_row, cursors):
    """Append each value to its region."""
    size, first_cursor = values.itemsize, address_of(cursors)
    for row in range(len(values)):
        cursor = first_cursor + 8 * _CURSOR_WORDS * np.int64(region_of_row[row])
        written = load_i64(cursor + _BYTES_AT)
        target = load_i64(cursor + _VALUES_AT) + written
        store(target, values[row])
        store(cursor + _BYTES_AT, written + size)
        prefetch_to_write(target + _PREFETCH_BYTES)
