"""Which rows of a batch go where: each to the part that the bin of its key belongs to.

Within a large part, rows stand by the region of a table that the slot of their key is in: whoever looks them up there
stays within a region, and caches hold more of it. What remains of their order is that of the rows of each key.
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
    """Which part the rows of a bin go to. A bin is what is left of a hash, shifted."""

    shift: int
    part_of_bin: Array
    parts: int


WHOLE = Division(64, np.zeros(1, np.uint16), 1)
"""All rows stay together."""

AT_ONCE = 4096
"""So many keys are hashed before it is looked up where they go, while the processor has the hashes near."""

REGION_ROWS_MIN = 4096
"""A region of fewer rows does not pay: few of them are looked up close to each other."""

REGIONS_MAX = 16
"""More regions of a part save no more."""

REGIONS_IN_ALL_MAX = 128
"""The more regions all parts have, the longer it takes to write to them by turns."""


def divide(
    batch: pa.RecordBatch, key: KeyColumns, division: Division, reserve: Reserve = reserve_none
) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that the bin of their key is in, with a column of the keys' hashes. Rows of one
    key keep their order."""
    regions = regions_of(len(batch), division.parts)
    region_of_row, where = empty(len(batch), np.uint16), (division.shift, division.part_of_bin, regions)
    strings = key.strings_to_hash(batch)
    if strings is None:
        hashes = read_only(key.hashes(batch))
        _assign(hashes, *where, region_of_row)
    else:
        fresh = empty(len(batch), np.uint64)
        _hash_and_assign(*strings, fresh, *where, region_of_row)
        hashes = read_only(fresh)
    known = batch.schema.get_field_index(HASHES)
    if known >= 0:
        batch = batch.remove_column(known)
    return scatter(batch, hashes, region_of_row, division.parts, regions, reserve)


def regions_of(rows: int, parts: int) -> int:
    """How many regions each part of a batch had best have: a power of two."""
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
    """The region of each row, those of all parts being numbered through."""
    single, last = shift >= 64, np.uint64(regions - 1)
    for row in range(len(hashes)):
        part = np.int64(part_of_bin[np.uint64(0) if single else hashes[row] >> np.uint64(shift)])
        region_of_row[row] = part * regions + np.int64(hashes[row] // np.uint64(L2_SLOTS_MAX) & last)


@kernel
def _hash_and_assign(offsets, data, seed, hashes, shift, part_of_bin, regions, region_of_row):
    """The hash and the region of each row whose key is a string."""
    for start in range(0, len(hashes), AT_ONCE):
        stop = min(start + AT_ONCE, len(hashes))
        hash_bytes(offsets[start : stop + 1], data, seed, hashes[start:stop])
        _assign(hashes[start:stop], shift, part_of_bin, regions, region_of_row[start:stop])
