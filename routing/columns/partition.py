"""Which rows of a batch go where."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from routing.columns.compiled import kernel
from routing.columns.keys import Array, byte_strings
from routing.columns.memory import load_up_to_8, store

_STRINGS_BYTES_MAX = 2**31 - 16
"""Offsets of 32 bits go no further."""


def divided(batch: pa.RecordBatch, hashes: Array, shift: int, part_of_bin: Array, parts: int) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that their bin is in, each part in their order."""
    ends = np.zeros(parts + 1, np.int64)
    order = np.empty(len(hashes), np.int64)
    _partition(hashes, shift, part_of_bin, ends, order)
    return by_order(batch, order, ends)


def warm_up() -> None:
    """Compile now, before there are records that wait for it."""
    gathered(pa.array(["a"]), np.zeros(1, np.int64))
    _partition(np.zeros(0, np.uint64), 64, np.zeros(1, np.int64), np.zeros(2, np.int64), np.zeros(0, np.int64))


def by_order(batch: pa.RecordBatch, order: Array, ends: Array) -> list[pa.RecordBatch]:
    """The rows of a batch in `order`, cut at `ends`, of which the first is 0."""
    cuts = [int(end) for end in ends]
    whole = [part for part in range(len(cuts) - 1) if cuts[part + 1] - cuts[part] == len(batch)]
    if whole:
        return [batch if part == whole[0] else batch.slice(0, 0) for part in range(len(cuts) - 1)]
    taken = pa.RecordBatch.from_arrays([gathered(column, order) for column in batch.columns], schema=batch.schema)
    return [taken.slice(start, end - start) for start, end in pairwise(cuts)]


def gathered(column: pa.Array, rows: Array) -> pa.Array:
    """The values of a column at `rows`."""
    kind = column.type
    if not column.null_count and (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        offsets, data = byte_strings(column)
        ends = np.empty(len(rows) + 1, np.int32)
        if not len(rows) or _measure(offsets, rows, ends):
            found = np.empty(ends[-1] + 8 if len(rows) else 0, np.uint8)
            _gather(offsets, data, rows, ends, found)
            return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(ends), pa.py_buffer(found)])
    if not column.null_count and (pa.types.is_int64(kind) or pa.types.is_uint64(kind) or pa.types.is_float64(kind)):
        return pa.array(column.to_numpy()[rows])
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):  # which Arrow cannot gather
        plain = pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary()
        return column.cast(plain).take(pa.array(rows)).cast(kind)
    return column.take(pa.array(rows))


def divided_by(batch: pa.RecordBatch, part_of_row: Array, parts: int) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that each names."""
    counts = np.bincount(part_of_row, minlength=parts)
    ends = np.zeros(parts + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    return by_order(batch, np.argsort(part_of_row, kind="stable"), ends)


def part_of_bin(owners: Sequence[int], among: Sequence[int]) -> Array:
    """For each bin, which of `among` owns it."""
    index = {worker: part for part, worker in enumerate(among)}
    return np.array([index[owner] for owner in owners], np.int64)


@kernel
def _partition(hashes, shift, part_of_bin, ends, order):
    """Count, then deal: afterwards part `p` is `order[ends[p]:ends[p + 1]]`."""
    single = shift >= 64
    for row in range(len(hashes)):
        bin_id = np.int64(0) if single else np.int64(hashes[row] >> np.uint64(shift))
        ends[part_of_bin[bin_id] + 1] += 1
    for part in range(1, len(ends)):
        ends[part] += ends[part - 1]
    next_of = ends[:-1].copy()
    for row in range(len(hashes)):
        bin_id = np.int64(0) if single else np.int64(hashes[row] >> np.uint64(shift))
        part = part_of_bin[bin_id]
        order[next_of[part]] = row
        next_of[part] += 1


@kernel
def _measure(offsets, rows, ends):
    """Where the strings at `rows` end, one after the other; whether they are small enough in all."""
    total = np.int64(0)
    ends[0] = 0
    for row in range(len(rows)):
        total += np.int64(offsets[rows[row] + 1]) - np.int64(offsets[rows[row]])
        ends[row + 1] = total
    return total < _STRINGS_BYTES_MAX


@kernel
def _gather(offsets, data, rows, ends, found):
    """Copy strings, whole words at a time: what is written behind one is written over by the next."""
    begin, to = data.ctypes.data, found.ctypes.data
    end = begin + len(data)
    for row in range(len(rows)):
        start = begin + np.int64(offsets[rows[row]])
        size = np.int64(ends[row + 1]) - np.int64(ends[row])
        target = to + np.int64(ends[row])
        for at in range(0, size, 8):
            store(target + at, load_up_to_8(start + at, size - at, end))
