"""Takes rows of a column, and decodes dictionary-encoded ones: Arrow's `take` and `cast`, faster for what is common."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from routing.columns.compiled import kernel
from routing.columns.keys import byte_strings, codes_of
from routing.columns.memory import WORD, Array, address_of, copy_rest, empty, load_before, store

_STRINGS_BYTES_MAX = 2**31 - 16
"""The most bytes of strings with 32-bit offsets."""

_UPPER_BOUND_BYTES_MAX = 2**25
"""Up to this size, decoding allocates as if all strings were as long as the longest, rather than measure them first."""


def take(column: pa.Array, rows: Array) -> pa.Array:
    """The values of a column at `rows`."""
    kind = column.type
    if not column.null_count and (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        offsets, data = byte_strings(column)
        ends = empty(len(rows) + 1, np.int32)
        size = _measure(offsets, rows, ends)
        if size < _STRINGS_BYTES_MAX:
            octets = empty(size + WORD, np.uint8)
            _gather_strings(offsets, data, rows, ends, octets)
            return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(ends), pa.py_buffer(octets[:size])])
    if not column.null_count and (pa.types.is_int64(kind) or pa.types.is_uint64(kind) or pa.types.is_float64(kind)):
        return pa.array(column.to_numpy()[rows])
    if not column.null_count and pa.types.is_fixed_size_binary(kind) and len(column) and kind.byte_width:
        wide = np.frombuffer(column.buffers()[1], f"V{kind.byte_width}")[column.offset :]
        return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(wide[rows])])
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):  # Arrow has no `take` for views
        plain = pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary()
        return column.cast(plain).take(pa.array(rows)).cast(kind)
    return column.take(pa.array(rows))


def decode(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column of type `kind`, from one that may be dictionary-encoded."""
    if column.type == kind:
        return column
    if column.null_count or column.dictionary.null_count:
        return column.cast(kind)
    codes, (offsets, data) = codes_of(column), byte_strings(column.dictionary)
    longest = int(np.diff(offsets).max(initial=0))
    if len(codes) * longest > _UPPER_BOUND_BYTES_MAX:
        return take(column.dictionary, codes.astype(np.int64))
    ends, octets = empty(len(codes) + 1, np.int32), empty(len(codes) * longest + WORD, np.uint8)
    size = _decode_strings(offsets, data, codes, ends, octets)
    return pa.Array.from_buffers(kind, len(codes), [None, pa.py_buffer(ends), pa.py_buffer(octets[:size])])


@kernel
def _decode_strings(offsets: Array, data: Array, codes: Array, ends: Array, octets: Array) -> Any:
    """Write the strings of codes in a row; return their number of bytes."""
    begin, to, at = address_of(data), address_of(octets), np.int64(0)
    end = begin + len(data)
    ends[0] = 0
    for row in range(len(codes)):
        code = np.uint64(codes[row])
        start = np.int64(offsets[code])
        size = np.int64(offsets[code + np.uint64(1)]) - start
        store(to + at, load_before(begin + start, end))
        if size > 8:
            copy_rest(to + at, begin + start, size, end)
        at += size
        ends[row + 1] = at
    return at


@kernel
def _measure(offsets: Array, rows: Array, ends: Array) -> Any:
    """Fill in where the strings at `rows` end, in a row; return their number of bytes."""
    total = np.int64(0)
    ends[0] = 0
    for row in range(len(rows)):
        total += np.int64(offsets[rows[row] + 1]) - np.int64(offsets[rows[row]])
        ends[row + 1] = total
    return total


@kernel
def _gather_strings(offsets: Array, data: Array, rows: Array, ends: Array, octets: Array) -> None:
    begin, to = address_of(data), address_of(octets)
    end = begin + len(data)
    for row in range(len(rows)):
        source, target = begin + np.int64(offsets[rows[row]]), to + np.int64(ends[row])
        size = np.int64(ends[row + 1]) - np.int64(ends[row])
        store(target, load_before(source, end))
        if size > 8:
            copy_rest(target, source, size, end)
