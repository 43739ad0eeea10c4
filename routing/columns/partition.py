"""Which rows of a batch go where: each to the part that the bin of its key belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from routing.columns import dealing
from routing.columns.compiled import kernel
from routing.columns.dealing import AT_ONCE, NO_HASHES, Room, dealt, nowhere
from routing.columns.hashing import hash_bytes
from routing.columns.keys import HASHES, KeyColumns, sealed
from routing.columns.memory import Array, empty


@dataclass(frozen=True, slots=True)
class Division:
    """Which part the rows of a bin go to. A bin is what is left of a hash, shifted."""

    shift: int
    part_of_bin: Array
    parts: int


WHOLE = Division(64, np.zeros(1, np.uint16), 1)
"""All rows stay together."""


def divided(batch: pa.RecordBatch, key: KeyColumns, division: Division, room: Room = nowhere) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that the bin of their key is in, each part in their order, with a column of the
    keys' hashes."""
    part_of_row, where = empty(len(batch), np.uint16), (division.shift, division.part_of_bin)
    strings = key.strings_to_hash(batch)
    if strings is None:
        hashes = sealed(key.hashes(batch))
        _assign(hashes, *where, part_of_row)
    else:
        fresh = empty(len(batch), np.uint64)
        _hash_and_assign(*strings, fresh, *where, part_of_row)
        hashes = sealed(fresh)
    known = batch.schema.get_field_index(HASHES)
    if known >= 0:
        batch = batch.remove_column(known)
    return dealt(batch, hashes, part_of_row, division.parts, room)


def divided_by(batch: pa.RecordBatch, part_of_row: Array, parts: int) -> list[pa.RecordBatch]:
    """The rows of a batch by the part that each names."""
    return dealt(batch, NO_HASHES, part_of_row.astype(np.uint16), parts)


def part_of_bin(owners: Sequence[int], among: Sequence[int]) -> Array:
    """For each bin, which of `among` owns it."""
    index = {worker: part for part, worker in enumerate(among)}
    return np.array([index[owner] for owner in owners], np.uint16)


def warm_up(key: KeyColumns) -> None:
    """Compile now, before there are records that wait for it."""
    none = pa.RecordBatch.from_pylist([], schema=key.schema)
    for batch in (none, none.add_column(0, HASHES, pa.array([], pa.uint64()))):
        divided(batch, key, WHOLE)
    dealing.warm_up()


@kernel
def _assign(hashes, shift, part_of_bin, part_of_row):
    """The part of each row."""
    single = shift >= 64
    for row in range(len(hashes)):
        part_of_row[row] = part_of_bin[np.uint64(0) if single else hashes[row] >> np.uint64(shift)]


@kernel
def _hash_and_assign(offsets, data, seed, hashes, shift, part_of_bin, part_of_row):
    """The hash and the part of each row whose key is a string."""
    for start in range(0, len(hashes), AT_ONCE):
        stop = min(start + AT_ONCE, len(hashes))
        hash_bytes(offsets[start : stop + 1], data, seed, hashes[start:stop])
        _assign(hashes[start:stop], shift, part_of_bin, part_of_row[start:stop])
