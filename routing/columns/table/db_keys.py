"""The database keys of a table's keys, and which keys of a batch have to be read from the database.

A database key is the bin, a byte that tells a null from an empty key, and the key's bytes. Python handles one `bytes`
per key that is read or written; kernels find out which keys these are.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from routing.columns.compiled import inlined, kernel
from routing.columns.keys import Keys, read_only
from routing.columns.memory import Array
from routing.columns.table.entries import bin_of
from routing.columns.table.layout import TableView, size_of
from routing.columns.table.probe import exceeds_l2, find, prefetch_entry, prefetch_slot, probe_addresses
from routing.columns.table.table import Table
from routing.state.database import BIN_BYTES

NULL, NOT_NULL = 0, 1
"""The byte behind the bin."""

_BEFORE_KEY = BIN_BYTES + 1


def missing_rows(table: Table, keys: Keys, on_disk: Array) -> Array:
    """One row of each key that is absent from a table, but for keys of bins that have none `on_disk`."""
    rows = np.empty(len(keys), np.int64)
    rows = rows[: _missing_rows(table.view(), keys.hashes, keys.offsets, keys.data, keys.nulls, on_disk, rows)]
    seen = np.zeros(1 << (2 * len(rows)).bit_length(), np.int64)
    return rows[: _distinct(keys.hashes, keys.offsets, keys.data, keys.nulls, rows, seen)]


def db_keys(offsets: Array, data: Array, nulls: Array, rows: Array, bins: Array) -> list[bytes]:
    """The database keys of the keys at `rows`, which are in `bins`."""
    offsets, data, nulls = read_only(offsets), read_only(data), read_only(nulls)
    sizes = offsets[rows + 1].astype(np.int64) - offsets[rows]
    if len(nulls):
        sizes[nulls[rows]] = 0
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(sizes + _BEFORE_KEY, out=ends[1:])
    written = np.empty(ends[-1], np.uint8)
    _write(offsets, data, nulls, rows, bins, ends, written)
    whole = written.tobytes()
    return [whole[start:end] for start, end in pairwise(ends.tolist())]


def decode_db_keys(found: list[bytes]) -> tuple[Array, Array, Array]:
    """Offsets and bytes of the keys of database keys without their bins, and which of them are null."""
    nulls = np.array([key[0] == NULL for key in found], np.bool_)
    offsets = np.zeros(len(found) + 1, np.int32)
    np.cumsum([len(key) - 1 for key in found], out=offsets[1:])
    data = np.frombuffer(b"".join(key[1:] for key in found), np.uint8)
    return offsets, data, nulls if nulls.any() else nulls[:0]


@kernel
def _missing_rows(
    view: TableView, hashes: Array, offsets: Array, data: Array, nulls: Array, on_disk: Array, rows: Array
) -> int:
    where, prefetching = probe_addresses(view, data), exceeds_l2(view)
    count = 0
    for block in range(0, len(hashes), 32):
        end = min(block + 32, len(hashes))
        if prefetching:
            for row in range(block, end):
                prefetch_slot(where, hashes[row])
            for row in range(block, end):
                prefetch_entry(where, hashes[row])
        for row in range(block, end):
            if on_disk[bin_of(view, hashes[row])] == 0:
                continue
            if find(where, hashes[row], np.int64(offsets[row]), size_of(offsets, nulls, row)) < 0:
                rows[count] = row
                count += 1
    return count


@kernel
def _distinct(hashes: Array, offsets: Array, data: Array, nulls: Array, rows: Array, seen: Array) -> int:
    """Move the first row of each key to the front; return their number. `seen` is a hash set of their indexes + 1."""
    mask = np.uint64(len(seen) - 1)
    count = 0
    for at in range(len(rows)):
        row = rows[at]
        slot = hashes[row] & mask
        known = False
        while seen[slot] != 0 and not known:
            other = rows[seen[slot] - 1]
            known = hashes[other] == hashes[row] and _are_equal(offsets, data, nulls, row, other)
            slot = (slot + np.uint64(1)) & mask
        if not known:
            rows[count] = row
            count += 1
            seen[slot] = count
    return count


@inlined
def _are_equal(offsets: Array, data: Array, nulls: Array, one: int, other: int) -> Any:
    size = size_of(offsets, nulls, one)
    if size != size_of(offsets, nulls, other):
        return False
    at, first, second = 0, np.int64(offsets[one]), np.int64(offsets[other])
    while at < size and data[first + at] == data[second + at]:
        at += 1
    return at >= size


@kernel
def _write(offsets: Array, data: Array, nulls: Array, rows: Array, bins: Array, ends: Array, written: Array) -> None:
    for number in range(len(rows)):
        row, at = rows[number], ends[number]
        size = size_of(offsets, nulls, row)
        for byte in range(BIN_BYTES):
            written[at + byte] = np.uint8((bins[number] >> (8 * (BIN_BYTES - 1 - byte))) & 255)
        written[at + BIN_BYTES] = NULL if size < 0 else NOT_NULL
        for byte in range(size):
            written[at + BIN_BYTES + 1 + byte] = data[np.int64(offsets[row]) + byte]
