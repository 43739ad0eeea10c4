"""Entries that come into a table and leave it, their keys, and the slots that lead to them."""

from __future__ import annotations

import numpy as np

from routing.columns.compiled import inlined, kernel
from routing.columns.layout import (
    ARENA_FIRST,
    ARENA_TOP,
    COUNT,
    EMPTY,
    EXACT_WORDS_MAX,
    FIRST,
    FREE,
    GONE,
    HALF,
    KEY,
    LINKS,
    LOW,
    NEEDED,
    NONE,
    NULL,
    NULL_SIZE,
    PAD,
    PREFIX,
    SHIFT,
    TOP,
    USED,
    USED_MAX,
    WIDTH,
)
from routing.columns.memory import address_of, load_up_to_8


@inlined
def _prefix(data, start, size):
    """The first 8 bytes of a key, or all of it and zeros."""
    if size <= 0:
        return np.uint64(0)
    begin = address_of(data)
    return load_up_to_8(begin + start, size, begin + len(data))


@inlined
def _words_for(size):
    """How many words of the arena a key takes, with its size."""
    if size <= 8:
        return np.int64(0)
    words = 1 + (size + 7) // 8
    if words > EXACT_WORDS_MAX:
        power = np.int64(EXACT_WORDS_MAX)
        while power < words:
            power *= 2
        words = power
    return words


@inlined
def _block_class(words):
    if words <= EXACT_WORDS_MAX:
        return words
    kind = np.int64(EXACT_WORDS_MAX)
    while words > EXACT_WORDS_MAX:
        words //= 2
        kind += 1
    return kind


@inlined
def bin_of(view, hash):
    """The bin of a key."""
    shift = view.meta[SHIFT]
    return np.int64(hash >> np.uint64(shift)) if shift < 64 else np.int64(0)


@kernel
def insert(view, hash, data, start, size):
    """The new entry of a key that is not there, or -1 if there is no room. Its state is for the caller to set."""
    meta, entries = view.meta, view.entries
    width = meta[WIDTH]
    words = _words_for(size)
    kind = _block_class(words)
    entry = meta[FREE]
    meta[NEEDED] = words
    if (
        (entry == NONE and PAD + (meta[TOP] + 1) * width > len(entries))
        or meta[USED] >= meta[USED_MAX]
        or (words > 0 and view.blocks[kind] < 0 and meta[ARENA_TOP] + words > len(view.arena))
    ):
        return np.int64(-1)
    if entry == NONE:
        entry = meta[TOP]
        meta[TOP] += 1
    else:
        meta[FREE] = np.int64(entries[PAD + entry * width + LINKS])
    base = PAD + entry * width
    place = NULL if size == NULL_SIZE else size
    if words > 0:
        place = view.blocks[kind]
        if place >= 0:
            view.blocks[kind] = np.int64(view.arena[place])
        else:
            place = meta[ARENA_TOP]
            meta[ARENA_TOP] += words
        view.arena[place] = np.uint64(size)
        for at in range(0, size, 8):
            view.arena[place + 1 + at // 8] = _prefix(data, start + at, size - at)
    entries[base + PREFIX] = _prefix(data, start, size)
    entries[base + KEY] = (hash << HALF) | np.uint64(place)
    bin_id = bin_of(view, hash)
    head = view.heads[bin_id]
    entries[base + LINKS] = (np.uint64(head) << HALF) | np.uint64(NONE)
    if head != NONE:
        linked = PAD + head * width + LINKS
        entries[linked] = (entries[linked] & ~LOW) | np.uint64(entry)
    view.heads[bin_id] = entry
    view.counts[bin_id] += 1
    meta[COUNT] += 1
    meta[USED] += 1
    take_slot(view.slots, hash & LOW, entry)
    return entry


@inlined
def take_slot(slots, low, entry):
    """Have a slot lead to an entry; `low` is the low half of its key's hash."""
    mask = np.uint64(len(slots) - 1)
    at = low & mask
    while slots[at] & LOW != EMPTY:
        at = (at + np.uint64(1)) & mask
    slots[at] = (low << HALF) | (np.uint64(entry) + FIRST)


@inlined
def _leave_slot(slots, low, entry):
    if len(slots) == 0:
        return
    mask = np.uint64(len(slots) - 1)
    at = low & mask
    sought = np.uint64(entry) + FIRST
    while slots[at] & LOW != EMPTY:
        if slots[at] & LOW == sought:
            slots[at] = GONE
            return
        at = (at + np.uint64(1)) & mask


@kernel
def remove(view, entry, bin_id):
    """Forget a key of a bin."""
    meta, entries = view.meta, view.entries
    width = meta[WIDTH]
    base = PAD + entry * width
    key, links = entries[base + KEY], entries[base + LINKS]
    _leave_slot(view.slots, key >> HALF, entry)
    _leave_slot(view.old, key >> HALF, entry)
    place = np.int64(key & LOW)
    if place >= ARENA_FIRST:
        kind = _block_class(_words_for(np.int64(view.arena[place])))
        view.arena[place] = np.uint64(view.blocks[kind])
        view.blocks[kind] = place
    after, before = np.int64(links >> HALF), np.int64(links & LOW)
    if before == NONE:
        view.heads[bin_id] = after
    else:
        linked = PAD + before * width + LINKS
        entries[linked] = (entries[linked] & LOW) | (np.uint64(after) << HALF)
    if after != NONE:
        linked = PAD + after * width + LINKS
        entries[linked] = (entries[linked] & ~LOW) | np.uint64(before)
    view.counts[bin_id] -= 1
    meta[COUNT] -= 1
    entries[base + LINKS] = np.uint64(meta[FREE])
    meta[FREE] = entry
