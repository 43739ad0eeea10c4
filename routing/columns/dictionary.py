"""Keys that recur in a batch, each of them once, and for each row the number of its key: what Arrow calls a dictionary.

Where many rows have few keys, a key is hashed, sent and looked for once in a batch. A row is then just a number. That
this is so is seen by trying. It ends as soon as there are too many keys, and is not tried again for a while.

Keys of a batch are told apart by a table for this one purpose, which fits into the processor's second cache: where a
key comes first there, its hash tells its owner, and it gets the next number among the owner's. Nothing is cleared
between batches: a slot says which batch it is of.
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
"""A batch of fewer rows is not worth the making of a dictionary."""

KEYS_MAX = 2**13
"""A batch with more keys has no dictionary: they would not be near the processor."""

SHARE_MAX = 1 / 8
"""At most so many keys per row."""

_SLOTS_BITS = 15
_PROBES_MAX = 64
"""Who makes keys whose slots are all in one place is not to slow a worker down."""

_SERIAL_MAX = 2**31 - 1

_SLOT = 4
"""The words of a slot: the first eight bytes of a key; the batch that it is of, and its size; its number among those of
its owner, and where the owner's cursor is; and where all of its bytes are."""

_CURSOR = 8
"""The words of an owner's cursor: where its next row goes, how many keys it has, and others, to fill a cache line."""

_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)


class DictionaryEncoder:
    """Makes dictionaries of the keys of batches, one batch after the other."""

    def __init__(self, column: KeyColumn, worth: CombineHeuristic, rows_min: int) -> None:
        self._name = column.name
        self._seed = np.uint64(column.seed)
        self._worth = worth
        self._rows_min = rows_min
        self._slots = np.zeros(_SLOT << _SLOTS_BITS, np.int64)
        self._serial = 0

    @staticmethod
    def of(key: KeyColumns) -> DictionaryEncoder | None:
        """One for keys that are byte strings with offsets of 32 bits, as most are; it is compiled now, before there
        are records that wait for it. Numbers are as soon hashed as told apart."""
        column = key.columns[0]
        if len(key.columns) > 1 or not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            return None
        batch = pa.record_batch({column.name: pa.array(["a", "a"], column.type)})
        encoded = DictionaryEncoder(column, CombineHeuristic(0.5), rows_min=2).encoded(batch, WHOLE)
        assert encoded is not None
        assert decode(encoded[0], column.type) == batch.column(0)
        return DictionaryEncoder(column, CombineHeuristic(SHARE_MAX), ROWS_MIN)

    def encoded(
        self, batch: pa.RecordBatch, division: Division, part_of_row: Array | None = None
    ) -> list[pa.DictionaryArray] | None:
        """The keys of each part of a batch, in their order; or None, if they had better stay as they are.

        Which part each row is in is told in `part_of_row`, if there is one.
        """
        keys, rows = batch.column(self._name), len(batch)
        tried = 0 if rows < self._rows_min or keys.null_count else self._worth.rows_to_try(rows)
        if not tried:
            return None
        octets, codes = byte_strings(keys), [pa.allocate_buffer(4 * rows) for _ in range(division.parts)]
        cursors = np.zeros((division.parts, _CURSOR), np.int64)
        cursors[:, 0] = [buffer.address for buffer in codes]
        firsts, progress = empty(division.parts * KEYS_MAX, np.int64).reshape(division.parts, -1), np.zeros(2, np.int64)
        self._begin()
        where = self._seed, division.shift, division.part_of_bin, self._slots, self._serial
        told = _UNTOLD if part_of_row is None else part_of_row
        for end in (tried, rows):
            keys_max = min(KEYS_MAX, self._worth.keys_max(end, rows))
            if not _encode(*octets, *where, end, keys_max, progress, cursors, firsts, told):
                self._worth.did_not_pay()
                return None
        self._worth.paid()
        return [
            _dictionary(keys, firsts[part, : cursors[part, 1]], buffer, (cursors[part, 0] - buffer.address) // 4)
            for part, buffer in enumerate(codes)
        ]

    def _begin(self) -> None:
        """Have all slots be of an earlier batch."""
        if self._serial == _SERIAL_MAX:
            self._slots[:] = 0
            self._serial = 0
        self._serial += 1


_UNTOLD = np.zeros(0, np.uint16)


def _dictionary(keys: pa.Array, firsts: Array, codes: pa.Buffer, rows: int) -> pa.DictionaryArray:
    """Of the keys that came first at some rows, and their numbers."""
    indices = pa.Array.from_buffers(pa.int32(), rows, [None, codes.slice(0, 4 * rows)])
    return pa.DictionaryArray.from_arrays(indices, take(keys, firsts), safe=False)


@kernel
def _encode(
    offsets, data, seed, shift, part_of_bin, slots, serial, end, keys_max, progress, cursors, firsts, part_of_row
):
    """Go on up to row `end`; whether that was possible with so many keys. `progress` are rows and keys so far."""
    begin, at, base = address_of(data), address_of(cursors), address_of(slots)
    limit, tag, told = begin + len(data), serial << 32, len(part_of_row) > 0
    start, keys = np.int64(offsets[progress[0]]), progress[1]
    for row in range(progress[0], end):
        stop = np.int64(offsets[np.uint64(row) + np.uint64(1)])
        size, key = stop - start, begin + start
        start = stop
        prefix = load_up_to_8(key, size, limit)
        place, known, probes = _place(prefix, key, size, limit, seed), tag | size, 0
        slot = base + 8 * _SLOT * place
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
                store(slot + 16, (number << 32) | (8 * _CURSOR * part))
                store(slot + 24, key)
                break
            probes += 1
            if probes > _PROBES_MAX:
                return False
            place = (place + 1) & ((1 << _SLOTS_BITS) - 1)
            slot = base + 8 * _SLOT * place
        found = load_i64(slot + 16)
        cursor = at + (found & 0xFFFFFFFF)
        to = load_i64(cursor)
        store(to, np.int32(found >> 32))
        store(cursor, to + 4)
        if told:
            part_of_row[row] = np.uint16((found & 0xFFFFFFFF) // (8 * _CURSOR))
    progress[0], progress[1] = end, keys
    return True


@inlined
def _place(prefix, key, size, limit, seed):
    """The slot that a key is looked for at: by all of its bytes, which takes a short one a multiplication or two."""
    mixed = (prefix ^ (np.uint64(size) * _P1)) * _P2
    if size > 8:
        if size > 16:
            mixed = _hash(key, size, limit, seed)
        else:
            mixed = (mixed ^ (mixed >> np.uint64(32)) ^ load_u64(key + size - 8)) * _P3
    return np.int64(mixed >> np.uint64(64 - _SLOTS_BITS))


@inlined
def _is_same(slot, prefix, key, size, limit):
    """Whether a slot is that of a key of the same size."""
    return load_u64(slot) == prefix and (size <= 8 or _is_same_rest(load_i64(slot + 24), key, size, limit))


@kernel
def _is_same_rest(one, other, size, limit):
    """Whether keys of one size have the same bytes, beyond the first eight."""
    at = 8
    while at < size and load_up_to_8(one + at, size - at, limit) == load_up_to_8(other + at, size - at, limit):
        at += 8
    return at >= size


@kernel
def _hash(key, size, limit, seed):
    return xxh64(key, size, limit, seed)
