"""Dictionary-encodes the keys of a batch, one dictionary per part: each key once, and a code for each row.

Where many rows have few keys, a key is then hashed, sent and looked up once per batch. `CombineHeuristic` decides which
batches to try; a try is given up as soon as there are too many keys.

The keys of a batch are distinguished by a hash table that fits the L2 cache (open addressing, linear probing, its own
cheap hash). A key's first occurrence is hashed with xxh64, which tells its part, and gets the part's next code. Slots
have the serial of their batch, so that nothing is cleared between batches.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from routing.columns.adaptive import CombineHeuristic
from routing.columns.compiled import inlined, kernel
from routing.columns.keys import KeyColumn, KeyColumns, byte_strings
from routing.columns.memory import Array, address_of, empty, load_i64, load_u64, load_up_to_8, store
from routing.columns.partition import WHOLE, Division
from routing.columns.take import decode, take
from routing.columns.xxh64 import xxh64

ROWS_MIN = 2**14
"""Smaller batches are not dictionary-encoded."""

KEYS_MAX = 2**13
"""Batches with more keys are not dictionary-encoded: their slots would not fit L2."""

SHARE_MAX = 1 / 8
"""Nor those with more keys per row than this."""

_SLOTS_BITS = 15
_PROBES_MAX = 64
"""A bound on probing, against keys chosen to collide."""

_SERIAL_MAX = 2**31 - 1

_SLOT_WORDS = 4
"""The first 8 bytes of the key; the serial of its batch, and its size; its code, and the offset of its part's cursor;
the address of its bytes."""

_CURSOR_WORDS = 8
"""The address of the part's next code, and its number of keys; padded to a cache line."""

_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)


class DictionaryEncoder:
    """Dictionary-encodes one batch after the other."""

    def __init__(self, column: KeyColumn, heuristic: CombineHeuristic, rows_min: int) -> None:
        self._name = column.name
        self._seed = np.uint64(column.seed)
        self._heuristic = heuristic
        self._rows_min = rows_min
        self._slots = np.zeros(_SLOT_WORDS << _SLOTS_BITS, np.int64)
        self._serial = 0

    @staticmethod
    def of(key: KeyColumns) -> DictionaryEncoder | None:
        """An encoder for keys that are one column of strings with 32-bit offsets, else None; compiled now, before
        records wait for it. To encode numbers takes as long as to hash them."""
        column = key.columns[0]
        if len(key.columns) > 1 or not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            return None
        batch = pa.record_batch({column.name: pa.array(["a", "a"], column.type)})
        encoded = DictionaryEncoder(column, CombineHeuristic(0.5), rows_min=2).encode(batch, WHOLE)
        assert encoded is not None
        assert decode(encoded[0], column.type) == batch.column(0)
        return DictionaryEncoder(column, CombineHeuristic(SHARE_MAX), ROWS_MIN)

    def encode(
        self, batch: pa.RecordBatch, division: Division, part_of_row: Array | None = None
    ) -> list[pa.DictionaryArray] | None:
        """The keys of each part of a batch, in the order of rows; or None, if encoding does not pay.

        Fills `part_of_row`, the part that each row is in, if there is one.
        """
        keys, rows = batch.column(self._name), len(batch)
        tried = 0 if rows < self._rows_min or keys.null_count else self._heuristic.rows_to_try(rows)
        if not tried:
            return None
        octets, codes = byte_strings(keys), [pa.allocate_buffer(4 * rows) for _ in range(division.parts)]
        cursors = np.zeros((division.parts, _CURSOR_WORDS), np.int64)
        cursors[:, 0] = [buffer.address for buffer in codes]
        firsts, progress = empty(division.parts * KEYS_MAX, np.int64).reshape(division.parts, -1), np.zeros(2, np.int64)
        self._next_serial()
        where = self._seed, division.shift, division.part_of_bin, self._slots, self._serial
        part_of_row = _NO_PARTS if part_of_row is None else part_of_row
        for end in (tried, rows):
            keys_max = min(KEYS_MAX, self._heuristic.keys_max(end, rows))
            if not _encode(*octets, *where, end, keys_max, progress, cursors, firsts, part_of_row):
                self._heuristic.did_not_pay()
                return None
        self._heuristic.paid()
        return [
            _dictionary(keys, firsts[part, : cursors[part, 1]], buffer, (cursors[part, 0] - buffer.address) // 4)
            for part, buffer in enumerate(codes)
        ]

    def _next_serial(self) -> None:
        """Invalidate all slots: they have the serial of an earlier batch."""
        if self._serial == _SERIAL_MAX:
            self._slots[:] = 0
            self._serial = 0
        self._serial += 1


_NO_PARTS = np.zeros(0, np.uint16)


def _dictionary(keys: pa.Array, firsts: Array, codes: pa.Buffer, rows: int) -> pa.DictionaryArray:
    """A dictionary of the keys at their first rows, and the codes."""
    indices = pa.Array.from_buffers(pa.int32(), rows, [None, codes.slice(0, 4 * rows)])
    return pa.DictionaryArray.from_arrays(indices, take(keys, firsts), safe=False)


@kernel
def _encode(
    offsets, data, seed, shift, part_of_bin, slots, serial, end, keys_max, progress, cursors, firsts, part_of_row
):
    """Encode up to row `end`; False if that takes more than `keys_max` keys. `progress` is rows and keys so far."""
    begin, at, base = address_of(data), address_of(cursors), address_of(slots)
    limit, tag, tells_parts = begin + len(data), serial << 32, len(part_of_row) > 0
    start, keys = np.int64(offsets[progress[0]]), progress[1]
    for row in range(progress[0], end):
        stop = np.int64(offsets[np.uint64(row) + np.uint64(1)])
        size, key = stop - start, begin + start
        start = stop
        prefix = load_up_to_8(key, size, limit)
        index, known, probes = _first_slot(prefix, key, size, limit, seed), tag | size, 0
        slot = base + 8 * _SLOT_WORDS * index
        while load_i64(slot + 8) != known or not _is_same(slot, prefix, key, size, limit):
            if load_i64(slot + 8) >> 32 != serial:
                if keys == keys_max:
                    return False
                hash = _hash(key, size, limit, seed)
                part = np.int64(part_of_bin[hash >> np.uint64(shift) if shift < 64 else np.uint64(0)])
                number = cursors[part, 1]
                cursors[part, 1] += 1
                firsts[part, number] = row
                keys += 1
                store(slot, prefix)
                store(slot + 8, known)
                store(slot + 16, (number << 32) | (8 * _CURSOR_WORDS * part))
                store(slot + 24, key)
                break
            probes += 1
            if probes > _PROBES_MAX:
                return False
            index = (index + 1) & ((1 << _SLOTS_BITS) - 1)
            slot = base + 8 * _SLOT_WORDS * index
        found = load_i64(slot + 16)
        cursor = at + (found & 0xFFFFFFFF)
        to = load_i64(cursor)
        store(to, np.int32(found >> 32))
        store(cursor, to + 4)
        if tells_parts:
            part_of_row[row] = np.uint16((found & 0xFFFFFFFF) // (8 * _CURSOR_WORDS))
    progress[0], progress[1] = end, keys
    return True


@inlined
def _first_slot(prefix, key, size, limit, seed):
    """The slot where probing starts: a hash of all bytes, which takes a short key one or two multiplications."""
    mixed = (prefix ^ (np.uint64(size) * _P1)) * _P2
    if size > 8:
        if size > 16:
            mixed = _hash(key, size, limit, seed)
        else:
            mixed = (mixed ^ (mixed >> np.uint64(32)) ^ load_u64(key + size - 8)) * _P3
    return np.int64(mixed >> np.uint64(64 - _SLOTS_BITS))


@inlined
def _is_same(slot, prefix, key, size, limit):
    """Whether a slot has the key, which has the same size."""
    return load_u64(slot) == prefix and (size <= 8 or _is_same_rest(load_i64(slot + 24), key, size, limit))


@kernel
def _is_same_rest(one, other, size, limit):
    """Whether keys of the same size are equal beyond their first 8 bytes."""
    at = 8
    while at < size and load_up_to_8(one + at, size - at, limit) == load_up_to_8(other + at, size - at, limit):
        at += 8
    return at >= size


@kernel
def _hash(key, size, limit, seed):
    return xxh64(key, size, limit, seed)
