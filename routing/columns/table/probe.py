"""Looks keys up in a table by linear probing: the innermost loop of everything on columns.

Kernels that look up many keys of a table beyond L2 are software-pipelined: `prefetch_slot` two prefetch distances
ahead, `prefetch_entry` one ahead, then `is_entry_of`, which rejects a candidate that was removed meanwhile. Arguments
are addresses, not arrays: see `routing.columns.memory`.
"""

from __future__ import annotations

import numpy as np

from routing.columns.compiled import inlined, kernel
from routing.columns.memory import address_of, load_i64, load_u64, load_up_to_8, prefetch
from routing.columns.table.layout import (
    ARENA_FIRST,
    CACHE_LINE_WORDS,
    EMPTY,
    ENTRY_OFFSET,
    HALF_BITS,
    KEY,
    L2_SLOTS_MAX,
    LOW_MASK,
    NULL_KEY,
    NULL_SIZE,
    PAD,
    PREFIX,
    REHASHED,
    WIDTH,
)

PREFETCH_DISTANCE = 32
"""How many rows ahead a pipelined loop prefetches entries; it prefetches slots twice as far. A power of two."""


@inlined
def probe_addresses(view, data):
    """The addresses, masks and width that `find` takes, of a table and of the bytes of keys."""
    return (
        (address_of(view.slots), np.uint64(len(view.slots) - 1)),
        _old_slots(view),
        (address_of(view.entries) + 8 * PAD, address_of(view.arena), view.meta[WIDTH]),
        (address_of(data), address_of(data) + len(data)),
    )


@inlined
def _old_slots(view):
    """The old slots' address, their mask, and the first that is not rehashed; beyond the mask if there are none."""
    if len(view.old) > 0:
        return address_of(view.old), np.uint64(len(view.old) - 1), np.uint64(view.meta[REHASHED])
    return address_of(view.old), np.uint64(0), np.uint64(1)


@inlined
def candidate(where, hash):
    """The first entry with the hash's tag, which mostly is the key's; if there is none, ~ the empty slot found."""
    slots, _, _, _ = where
    return _candidate(slots, hash)


@inlined
def _candidate(within, hash):
    slots, mask = within
    at, low = _probe(slots, mask, hash & mask, hash << HALF_BITS)
    return ~np.int64(at) if low == EMPTY else np.int64(low - ENTRY_OFFSET)


@inlined
def is_entry_of(where, entry, hash, start, size):
    """Whether a candidate is the entry of a key that is inline; keys in the arena are left to `find_or_insert`.

    Everything that it calls is inlined: a call would slow down the loop around it.
    """
    _, _, (entries, _, width), (data, end) = where
    if size > 8 or entry < 0:
        return False
    prefix = np.uint64(0) if size <= 0 else load_up_to_8(data + start, size, end)
    at = entries + 8 * width * entry
    known = hash << HALF_BITS | np.uint64(NULL_KEY if size == NULL_SIZE else size)
    return (load_u64(at + 8 * PREFIX) ^ prefix) | (load_u64(at + 8 * KEY) ^ known) == np.uint64(0)


@kernel
def find(where, hash, start, size):
    """The entry of a key, or -1. `where` is what `probe_addresses` returned."""
    (slots, mask), (old, old_mask, _), (entries, arena, width), (data, end) = where
    key = data + start
    prefix = np.uint64(0) if size <= 0 else load_up_to_8(key, size, end)
    entry = _look_up(slots, mask, entries, arena, width, hash, key, size, end, prefix)
    if entry < 0 and old_mask != np.uint64(0):
        entry = _look_up(old, old_mask, entries, arena, width, hash, key, size, end, prefix)
    return entry


@inlined
def _probe(slots, mask, at, tag):
    """From a slot on, the first that is empty or has the tag; and its lower half."""
    while True:
        slot = load_u64(slots + 8 * np.int64(at))
        low = slot & LOW_MASK
        if low == EMPTY or (slot ^ low == tag and low >= ENTRY_OFFSET):
            return at, low
        at = (at + np.uint64(1)) & mask


@inlined
def _look_up(slots, mask, entries, arena, width, hash, key, size, end, prefix):
    tag = hash << HALF_BITS
    at, low = _probe(slots, mask, hash & mask, tag)
    while low != EMPTY:
        entry = np.int64(low - ENTRY_OFFSET)
        if matches(entries + 8 * width * entry, arena, tag, key, size, end, prefix):
            return entry
        at, low = _probe(slots, mask, (at + np.uint64(1)) & mask, tag)
    return np.int64(-1)


@inlined
def matches(entry, arena, tag, key, size, end, prefix):
    """Whether the entry at an address is that of the key at another: a full comparison."""
    if load_u64(entry + 8 * PREFIX) != prefix:
        return False
    stored = load_u64(entry + 8 * KEY)
    if size <= 8:
        return stored == tag | np.uint64(NULL_KEY if size == NULL_SIZE else size)
    place = np.int64(stored & LOW_MASK)
    if place < ARENA_FIRST:
        return False
    bytes_at = arena + 8 * place
    if load_i64(bytes_at) != size:
        return False
    at = 8
    while at < size and load_u64(bytes_at + 8 + at) == load_up_to_8(key + at, size - at, end):
        at += 8
    return at >= size


@inlined
def exceeds_l2(view):
    """Whether a table is larger than the L2 cache, so that prefetching pays."""
    return len(view.slots) > L2_SLOTS_MAX


@inlined
def prefetch_slot(where, hash):
    """Prefetch a key's slot, the new one and the old."""
    (slots, mask), (old, old_mask, _), _, _ = where
    prefetch(slots + 8 * np.int64(hash & mask))
    prefetch(old + 8 * np.int64(hash & old_mask))


@inlined
def prefetch_entry(where, hash):
    """Prefetch the `candidate` that a key's slots, prefetched before, lead to, and return it."""
    slots, (old, old_mask, rehashed), (entries, _, width), _ = where
    entry = _candidate((old, old_mask) if hash & old_mask >= rehashed else slots, hash)
    at = entries + 8 * width * entry
    prefetch(at)
    if width > CACHE_LINE_WORDS // 2:  # else it does not span two lines
        prefetch(at + 8 * width - 8)
    return entry
