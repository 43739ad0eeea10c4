"""Finding a key in a table: the innermost loop of all. Only numbers are handed around: see `routing.columns.memory`."""

from __future__ import annotations

import numpy as np

from routing.columns.compiled import inlined, kernel
from routing.columns.memory import address_of, load_i64, load_u64, load_up_to_8, prefetch
from routing.columns.table.layout import (
    ARENA_FIRST,
    EMPTY,
    FIRST,
    HALF,
    KEY,
    LINE_WORDS,
    LOW,
    NEAR_SLOTS_MAX,
    NULL,
    NULL_SIZE,
    PAD,
    PREFIX,
    SWEPT,
    WIDTH,
)

AHEAD = 32
"""A loop over a table that is far asks for the entries of so many rows ahead, and for the slots of twice as many."""


@inlined
def addresses(view, data):
    """What `find` needs to know of a table, and of the bytes of keys."""
    return (
        (address_of(view.slots), np.uint64(len(view.slots) - 1)),
        _old_slots(view),
        (address_of(view.entries) + 8 * PAD, address_of(view.arena), view.meta[WIDTH]),
        (address_of(data), address_of(data) + len(data)),
    )


@inlined
def _old_slots(view):
    """Where old slots are, their mask, and the first that is not taken over yet; none is left if that is beyond it."""
    if len(view.old) > 0:
        return address_of(view.old), np.uint64(len(view.old) - 1), np.uint64(view.meta[SWEPT])
    return address_of(view.old), np.uint64(0), np.uint64(1)


@inlined
def candidate(where, hash):
    """The first entry whose hash ends alike, which mostly is the key's; if there is none, ~ the slot after the last."""
    slots, _, _, _ = where
    return _candidate(slots, hash)


@inlined
def _candidate(within, hash):
    slots, mask = within
    at, low = _probe(slots, mask, hash & mask, hash << HALF)
    return ~np.int64(at) if low == EMPTY else np.int64(low - FIRST)


@inlined
def is_entry_of(where, entry, hash, start, size):
    """Whether a candidate is the entry of a key and has all of it, as is mostly so.

    It calls nothing that is not inlined, which would slow down the loop around it.
    """
    _, _, (entries, _, width), (data, end) = where
    if size > 8 or entry < 0:
        return False
    prefix = np.uint64(0) if size <= 0 else load_up_to_8(data + start, size, end)
    at = entries + 8 * width * entry
    known = hash << HALF | np.uint64(NULL if size == NULL_SIZE else size)
    return (load_u64(at + 8 * PREFIX) ^ prefix) | (load_u64(at + 8 * KEY) ^ known) == np.uint64(0)


@kernel
def find(where, hash, start, size):
    """The entry of a key, or -1. `where` is what `addresses` gave."""
    (slots, mask), (old, old_mask, _), (entries, arena, width), (data, end) = where
    key = data + start
    prefix = np.uint64(0) if size <= 0 else load_up_to_8(key, size, end)
    entry = _look_up(slots, mask, entries, arena, width, hash, key, size, end, prefix)
    if entry < 0 and old_mask != np.uint64(0):
        entry = _look_up(old, old_mask, entries, arena, width, hash, key, size, end, prefix)
    return entry


@inlined
def _probe(slots, mask, at, tag):
    """From a slot on, the first that was never used, or is that of an entry whose hash ends alike; and its low half."""
    while True:
        slot = load_u64(slots + 8 * np.int64(at))
        low = slot & LOW
        if low == EMPTY or (slot ^ low == tag and low >= FIRST):
            return at, low
        at = (at + np.uint64(1)) & mask


@inlined
def _look_up(slots, mask, entries, arena, width, hash, key, size, end, prefix):
    tag = hash << HALF
    at, low = _probe(slots, mask, hash & mask, tag)
    while low != EMPTY:
        entry = np.int64(low - FIRST)
        if matches(entries + 8 * width * entry, arena, tag, key, size, end, prefix):
            return entry
        at, low = _probe(slots, mask, (at + np.uint64(1)) & mask, tag)
    return np.int64(-1)


@inlined
def matches(entry, arena, tag, key, size, end, prefix):
    """Whether the entry at an address is that of the key whose bytes are at another."""
    if load_u64(entry + 8 * PREFIX) != prefix:
        return False
    stored = load_u64(entry + 8 * KEY)
    if size <= 8:
        return stored == tag | np.uint64(NULL if size == NULL_SIZE else size)
    place = np.int64(stored & LOW)
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
def is_far(view):
    """Whether a table is too large to be near the processor, so that looking ahead pays."""
    return len(view.slots) > NEAR_SLOTS_MAX


@inlined
def prefetch_slot(where, hash):
    """Have a key's slot on its way from memory, the new one and the old."""
    (slots, mask), (old, old_mask, _), _, _ = where
    prefetch(slots + 8 * np.int64(hash & mask))
    prefetch(old + 8 * np.int64(hash & old_mask))


@inlined
def look_ahead(where, hash):
    """The `candidate` that a key's slots, which are there by now, lead to; have it on its way from memory."""
    slots, (old, old_mask, swept), (entries, _, width), _ = where
    entry = _candidate((old, old_mask) if hash & old_mask >= swept else slots, hash)
    at = entries + 8 * width * entry
    prefetch(at)
    if width > LINE_WORDS // 2:  # else it is half a line, or less
        prefetch(at + 8 * width - 8)
    return entry
