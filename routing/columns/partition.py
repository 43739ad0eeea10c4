"""A radix partition of a batch by the hash of its keys: each row goes to the part that the bin of its key belongs to.

The bin is the top bits of the hash. A large part is partitioned further into *regions*, by those bits of the hash that
choose a region of slots in a table: the lookups of one region of rows stay within one region of the table, of which
caches hold more than of the whole. Only the rows of one key keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from routing.columns.compiled import kernel
from routing.columns.hashing import hash_bytes
from routing.columns.keys import HASHES, KeyColumns, read_only
from routing.columns.memory import Array, empty
from routing.columns.scatter import NO_HASHES, Reserve, reserve_none, scatter
from routing.columns.scatter import warm_up as warm_up_scatter
from routing.columns.table.layout import L2_SLOTS_MAX


@dataclass(frozen=True, slots=True)
class Division:
    """Which part the rows of a bin go to. A bin is a hash, shifted right."""

    shift: int
    part_of_bin: Array
    parts: int


WHOLE = Division(64, np.zeros(1, np.uint16), 1)
"""All rows stay together."""

HASH_CHUNK_ROWS = 4096
"""Keys are hashed and assigned to parts in chunks, whose hashes stay in the cache between the two loops."""

REGION_ROWS_MIN = 4096
"""With fewer rows a region does not pay: its lookups are too sparse to hit the same cache lines."""

REGIONS_MAX = 16
"""Beyond this, further regions of a part save no cache misses."""

REGIONS_IN_ALL_MAX = 128
"""The more write streams a scatter has, the slower it is."""


def divide(
    batch: pa.RecordBatch, key: KeyColumns, division: Division, reserve: Reserve = reserve_none
) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that the bin of their key is in, with a column of the keys' hashes. Rows of one
    key keep their order."""
    regions = regions_of(len(batch), division.parts)
    region_of_row, by = empty(len(batch), np.uint16), (division.shift, division.part_of_bin, regions)
    strings = key.strings_to_hash(batch)
    if strings is None:
        hashes = read_only(key.hashes(batch))
        _assign(hashes, *by, region_of_row)
    else:
        writable = empty(len(batch), np.uint64)
        _hash_and_assign(*strings, writable, *by, region_of_row)
        hashes = read_only(writable)
    column = batch.schema.get_field_index(HASHES)
    if column >= 0:
        batch = batch.remove_column(column)
    return scatter(batch, hashes, region_of_row, division.parts, regions, reserve)


def regions_of(rows: int, parts: int) -> int:
    """How many regions each part of a batch has: a power of two."""
    most = min(REGIONS_MAX, REGIONS_IN_ALL_MAX // parts, rows // (REGION_ROWS_MIN * parts))
    return 1 << max(most.bit_length() - 1, 0)


def divide_by(batch: pa.RecordBatch, part_of_row: Array, parts: int) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that each names."""
    return scatter(batch, NO_HASHES, part_of_row.astype(np.uint16), parts)


def part_of_bin(owners: Sequence[int], among: Sequence[int]) -> Array:
    """For each bin, which of `among` owns it."""
    index = {worker: part for part, worker in enumerate(among)}
    return np.array([index[owner] for owner in owners], np.uint16)


def warm_up(key: KeyColumns) -> None:
    """Compile now, before there are records that wait for it."""
    none = pa.RecordBatch.from_pylist([], schema=key.schema)
    for batch in (none, none.add_column(0, HASHES, pa.array([], pa.uint64()))):
        divide(batch, key, WHOLE)
    warm_up_scatter()


@kernel
def _assign(hashes, shift, part_of_bin, regions, region_of_row):
    """The region of each row. Regions are numbered across all parts."""
    one_bin, mask = shift >= 64, np.uint64(regions - 1)
    for row in range(len(hashes)):
        part = np.int64(part_of_bin[np.uint64(0) if one_bin else hashes[row] >> np.uint64(shift)])
        region_of_row[row] = part * regions + np.int64(hashes[row] // np.uint64(L2_SLOTS_MAX) & mask)


@kernel
def _hash_and_assign(offsets, data, seed, hashes, shift, part_of_bin, regions, region_of_row):
    """The hash and the region of each row whose key is a string."""
    for start in range(0, len(hashes), HASH_CHUNK_ROWS):
        stop = min(start + HASH_CHUNK_ROWS, len(hashes))
        hash_bytes(offsets[start : stop + 1], data, seed, hashes[start:stop])
        _assign(hashes[start:stop], shift, part_of_bin, regions, region_of_row[start:stop])
