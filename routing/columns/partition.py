"""Which rows of a batch go where.

Rows are read in their order and written to the parts that they belong to, so that memory is read once, from beginning
to end, and each part is written from beginning to end. A small batch is put into the order of the parts as a whole, and
sliced: that is less to do for each column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from routing.columns.compiled import kernel
from routing.columns.keys import HASHES, byte_strings, sealed
from routing.columns.memory import WORD, Array, address_of, copy_rest, empty, load_before, load_i64, store

_STRINGS_BYTES_MAX = 2**31 - 16
"""Offsets of 32 bits go no further."""

_SMALL_ROWS = 16_384
"""Batches of fewer rows are small: they are in the cache, and in what order memory is read does not matter."""

_CURSOR = 8
"""The words of a part's cursor: a cache line."""

_NOTHING = sealed(np.zeros(0, np.uint64))


def divided(batch: pa.RecordBatch, hashes: Array, shift: int, part_of_bin: Array, parts: int) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that their bin is in, each part in their order, with a column of their hashes."""
    if batch.schema.names[-1] == HASHES:
        batch = batch.remove_column(batch.num_columns - 1)
    part_of_row, counts = empty(len(hashes), np.uint16), np.zeros(parts, np.int64)
    _assign(sealed(hashes), shift, part_of_bin, part_of_row, counts)
    schema = batch.schema.append(pa.field(HASHES, pa.uint64()))
    if len(batch) in counts:
        whole = batch.append_column(schema.field(HASHES), pa.array(hashes))
        return [whole if count else whole.slice(0, 0) for count in counts]
    return _dealt(batch.columns, hashes, schema, part_of_row, counts)


def divided_by(batch: pa.RecordBatch, part_of_row: Array, parts: int) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that each names."""
    counts = np.bincount(part_of_row, minlength=parts)
    if len(batch) in counts:
        return [batch if count else batch.slice(0, 0) for count in counts]
    return _dealt(batch.columns, _NOTHING, batch.schema, part_of_row.astype(np.uint16), counts)


def warm_up() -> None:
    """Compile now, before there are records that wait for it."""
    for rows in (2, _SMALL_ROWS):
        batch = pa.record_batch({"word": ["a", "b"] * (rows // 2), "number": np.zeros(rows, np.int64)})
        hashes = np.array([0, 2**63] * (rows // 2), np.uint64)
        assert len(divided(batch, hashes, 63, np.arange(2, dtype=np.uint16), 2)) == 2


def _dealt(
    columns: Sequence[pa.Array], hashes: Array, schema: pa.Schema, part_of_row: Array, counts: Array
) -> list[pa.RecordBatch]:
    """The rows by their parts; the hashes, if there are any, go along with the first column of strings."""
    if len(part_of_row) < _SMALL_ROWS:
        return _sliced([*columns, *([pa.array(hashes)] if len(hashes) else [])], schema, part_of_row, counts)
    dealt, hashed = [], [empty(int(count), np.uint64) for count in counts]
    waiting = hashes
    for column in columns:
        if column.null_count == 0 and (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            dealt.append(_scattered_strings(column, part_of_row, counts, waiting, hashed))
            waiting = _NOTHING
        else:
            dealt.append(_scattered(column, part_of_row, counts))
    if len(hashes):
        if len(waiting):
            _scatter_numbers(hashes, part_of_row, _cursors(hashed))
        dealt.append([pa.array(array) for array in hashed])
    return [pa.RecordBatch.from_arrays(list(arrays), schema=schema) for arrays in zip(*dealt, strict=True)]


def _sliced(columns: Sequence[pa.Array], schema: pa.Schema, part_of_row: Array, counts: Array) -> list[pa.RecordBatch]:
    order = np.argsort(part_of_row, kind="stable")
    ordered = pa.RecordBatch.from_arrays([gathered(column, order) for column in columns], schema=schema)
    stops = np.cumsum(counts).tolist()
    return [ordered.slice(stop - count, count) for stop, count in zip(stops, counts.tolist(), strict=True)]


def _scattered_strings(
    column: pa.Array, part_of_row: Array, counts: Array, along: Array, words: list[Array]
) -> list[pa.Array]:
    offsets, data = byte_strings(column)
    sizes = np.zeros(len(counts), np.int64)
    _measure_parts(offsets, part_of_row, sizes)
    ends = [empty(int(count) + 1, np.int32) for count in counts]
    octets = [empty(int(size) + WORD, np.uint8) for size in sizes]
    for array in ends:
        array[0] = 0
    _scatter_strings(offsets, data, along, part_of_row, _cursors(octets, [array[1:] for array in ends], words))
    return [_strings(column.type, one, other[:-WORD]) for one, other in zip(ends, octets, strict=True)]


def _scattered(column: pa.Array, part_of_row: Array, counts: Array) -> list[pa.Array]:
    kind = column.type
    if column.null_count == 0 and pa.types.is_primitive(kind) and kind.bit_width in (8, 16, 32, 64):
        dtype = np.dtype(f"u{kind.bit_width // 8}")
        values = sealed(np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize))
        found = [empty(int(count), dtype) for count in counts]
        _scatter_numbers(values, part_of_row, _cursors(found))
        return [pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(array)]) for array in found]
    order, stops = np.argsort(part_of_row, kind="stable"), np.cumsum(counts)
    taken = gathered(column, order)
    return [taken.slice(int(stop - count), int(count)) for stop, count in zip(stops, counts, strict=True)]


def gathered(column: pa.Array, rows: Array) -> pa.Array:
    """The values of a column at `rows`."""
    kind = column.type
    if not column.null_count and (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        offsets, data = byte_strings(column)
        ends = empty(len(rows) + 1, np.int32)
        size = _measure(offsets, rows, ends)
        if size < _STRINGS_BYTES_MAX:
            octets = empty(size + WORD, np.uint8)
            _gather_strings(offsets, data, rows, ends, octets)
            return _strings(kind, ends, octets[:size])
    if not column.null_count and (pa.types.is_int64(kind) or pa.types.is_uint64(kind) or pa.types.is_float64(kind)):
        return pa.array(column.to_numpy()[rows])
    if not column.null_count and pa.types.is_fixed_size_binary(kind) and len(column) and kind.byte_width:
        octets = np.frombuffer(column.buffers()[1], f"V{kind.byte_width}")[column.offset :]
        return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(octets[rows])])
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):  # which Arrow cannot gather
        plain = pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary()
        return column.cast(plain).take(pa.array(rows)).cast(kind)
    return column.take(pa.array(rows))


def part_of_bin(owners: Sequence[int], among: Sequence[int]) -> Array:
    """For each bin, which of `among` owns it."""
    index = {worker: part for part, worker in enumerate(among)}
    return np.array([index[owner] for owner in owners], np.uint16)


def _strings(kind: pa.DataType, ends: Array, octets: Array) -> pa.Array:
    return pa.Array.from_buffers(kind, len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(octets)])


def _cursors(*arrays: Sequence[Array]) -> Array:
    """For each part, a line: how many bytes and values were written to it, and where its arrays are."""
    cursors = np.zeros((len(arrays[0]), _CURSOR), np.int64)
    for index, of_parts in enumerate(arrays, start=2):
        cursors[:, index] = [array.ctypes.data for array in of_parts]
    return cursors


@kernel
def _assign(hashes, shift, part_of_bin, part_of_row, counts):
    """The part of each row, and how many rows each part has."""
    single = shift >= 64
    for row in range(len(hashes)):
        part = part_of_bin[np.uint64(0) if single else hashes[row] >> np.uint64(shift)]
        part_of_row[row] = part
        counts[part] += 1


@kernel
def _measure_parts(offsets, part_of_row, sizes):
    """How many bytes the strings of each part have."""
    start = np.int64(offsets[0])
    for row in range(len(part_of_row)):
        stop = np.int64(offsets[row + 1])
        sizes[part_of_row[row]] += stop - start
        start = stop


@kernel
def _scatter_strings(offsets, data, along, part_of_row, cursors):
    """Write each string behind those of its part, and its end, and the word that goes along with it, if any does.

    Whole words are copied: the next string is written over what is too much, and behind the last there is room for it.
    """
    begin, start, at = address_of(data), np.int64(offsets[0]), address_of(cursors)
    end, some_along = begin + len(data), len(along) > 0
    for row in range(len(part_of_row)):
        stop, cursor = np.int64(offsets[row + 1]), at + 8 * _CURSOR * np.int64(part_of_row[row])
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
        store(load_i64(cursor + 24) + 4 * count, np.int32(written))
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


@kernel
def _measure(offsets, rows, ends):
    """Where the strings at `rows` end, one after the other; how many bytes they are in all."""
    total = np.int64(0)
    ends[0] = 0
    for row in range(len(rows)):
        total += np.int64(offsets[rows[row] + 1]) - np.int64(offsets[rows[row]])
        ends[row + 1] = total
    return total


@kernel
def _gather_strings(offsets, data, rows, ends, octets):
    begin, to = address_of(data), address_of(octets)
    end = begin + len(data)
    for row in range(len(rows)):
        source, target = begin + np.int64(offsets[rows[row]]), to + np.int64(ends[row])
        size = np.int64(ends[row + 1]) - np.int64(ends[row])
        store(target, load_before(source, end))
        if size > 8:
            copy_rest(target, source, size, end)
