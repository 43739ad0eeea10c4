"""Where keys are in a database, and which keys of a batch are to be looked for there.

A key's place is its bin, a byte that tells whether it is null, and its bytes. Python handles one place for each key
that has to be looked for; which ones these are is found out by compiled code.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from routing.columns.compiled import inlined, kernel
from routing.columns.keys import Keys, sealed
from routing.columns.memory import Array
from routing.columns.table.entries import bin_of
from routing.columns.table.layout import size_of
from routing.columns.table.probe import addresses, find, is_far, look_ahead, prefetch_slot
from routing.columns.table.table import Table
from routing.state.database import BIN_BYTES

NULL, NOT_NULL = 0, 1
"""What the byte behind a bin says of a key."""

_BEFORE_KEY = BIN_BYTES + 1


def lacking(table: Table, keys: Keys, on_disk: Array) -> Array:
    """Of the keys that a table lacks, one row each; those of bins that have none `on_disk` are left out."""
    rows = np.empty(len(keys), np.int64)
    rows = rows[: _lacking(table.view(), keys.hashes, keys.offsets, keys.data, keys.nulls, on_disk, rows)]
    seen = np.zeros(1 << (2 * len(rows)).bit_length(), np.int64)
    return rows[: _distinct(keys.hashes, keys.offsets, keys.data, keys.nulls, rows, seen)]


def db_keys(offsets: Array, data: Array, nulls: Array, rows: Array, bins: Array) -> list[bytes]:
    """The places of the keys at `rows`, which are in `bins`."""
    offsets, data, nulls = sealed(offsets), sealed(data), sealed(nulls)
    sizes = offsets[rows + 1].astype(np.int64) - offsets[rows]
    if len(nulls):
        sizes[nulls[rows]] = 0
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(sizes + _BEFORE_KEY, out=ends[1:])
    written = np.empty(ends[-1], np.uint8)
    _write(offsets, data, nulls, rows, bins, ends, written)
    whole = written.tobytes()
    return [whole[start:end] for start, end in pairwise(ends.tolist())]


def keys_at(found: list[bytes]) -> tuple[Array, Array, Array]:
    """Offsets and bytes of the keys at places, without their bins, and which are null."""
    nulls = np.array([place[0] == NULL for place in found], np.bool_)
    offsets = np.zeros(len(found) + 1, np.int32)
    np.cumsum([len(place) - 1 for place in found], out=offsets[1:])
    data = np.frombuffer(b"".join(place[1:] for place in found), np.uint8)
    return offsets, data, nulls if nulls.any() else nulls[:0]


@kernel
def _lacking(view, hashes, offsets, data, nulls, on_disk, rows):
    where, far = addresses(view, data), is_far(view)
    count = 0
    for block in range(0, len(hashes), 32):
        end = min(block + 32, len(hashes))
        if far:
            for row in range(block, end):
                prefetch_slot(where, hashes[row])
            for row in range(block, end):
                look_ahead(where, hashes[row])
        for row in range(block, end):
            if on_disk[bin_of(view, hashes[row])] == 0:
                continue
            if find(where, hashes[row], np.int64(offsets[row]), size_of(offsets, nulls, row)) < 0:
                rows[count] = row
                count += 1
    return count


@kernel
def _distinct(hashes, offsets, data, nulls, rows, seen):
    """Move the first row of each key to the front; how many there are. `seen` is for one more than their numbers."""
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
def _are_equal(offsets, data, nulls, one, other):
    size = size_of(offsets, nulls, one)
    if size != size_of(offsets, nulls, other):
        return False
    at, first, second = 0, np.int64(offsets[one]), np.int64(offsets[other])
    while at < size and data[first + at] == data[second + at]:
        at += 1
    return at >= size


@kernel
def _write(offsets, data, nulls, rows, bins, ends, written):
    for number in range(len(rows)):
        row, at = rows[number], ends[number]
        size = size_of(offsets, nulls, row)
        for byte in range(BIN_BYTES):
            written[at + byte] = np.uint8((bins[number] >> (8 * (BIN_BYTES - 1 - byte))) & 255)
        written[at + BIN_BYTES] = NULL if size < 0 else NOT_NULL
        for byte in range(size):
            written[at + BIN_BYTES + 1 + byte] = data[np.int64(offsets[row]) + byte]
