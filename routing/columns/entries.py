"""Entries that come into a table and leave it, their keys, and the slots that lead to them.

Kernels call these for each key that is new or goes; they hand over addresses, for the reason that
`routing.columns.memory` gives.
"""

from __future__ import annotations

import numpy as np

from routing.columns.compiled import inlined, kernel
from routing.columns.finding import find
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
    VACANT,
    WIDTH,
)
from routing.columns.memory import address_of, load_i64, load_u64, load_up_to_8, store


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
    return _bin(view.meta[SHIFT], hash)


@inlined
def _bin(shift, hash):
    return np.int64(hash >> np.uint64(shift)) if shift < 64 else np.int64(0)


@inlined
def places(view):
    """What `insert` and `remove` need to know of a table: where its arrays are, and how large."""
    return (
        (address_of(view.meta), address_of(view.heads), address_of(view.counts), address_of(view.blocks)),
        (address_of(view.entries) + 8 * PAD, len(view.entries) - PAD),
        (address_of(view.arena), len(view.arena)),
        (address_of(view.slots), len(view.slots)),
        (address_of(view.old), len(view.old)),
    )


@inlined
def _add(address, difference):
    store(address, load_i64(address) + difference)


@kernel
def find_or_insert(found, where, candidate, hash, start, size):
    """The entry of a key that its candidate is not, or not seen to be; ~ a new one, if it has none.

    It is ~ `NONE` if there is no room. `found` is what `addresses` gave, `where` what `places` gave.
    """
    (slots, mask), (_, old_mask, _), _, (data, end) = found
    at = np.uint64(~candidate)
    # Who finds a slot still empty need not look again, for the key would be there by now; the old ones tell nothing.
    if candidate >= 0 or old_mask != np.uint64(0) or load_u64(slots + 8 * np.int64(at)) & LOW != EMPTY:
        entry = find(found, hash, start, size)
        if entry >= 0:
            return entry
        at = empty_slot(slots, mask, hash)
    return ~_enter(where, slots + 8 * np.int64(at), hash, data + start, size, end)


@kernel
def insert(where, hash, key, size, end):
    """The new entry of a key that is not there, or `NONE` if there is no room. Its state is for the caller to set.

    `where` is what `places` gave; the key's bytes are at an address, and memory may end at `end`.
    """
    _, _, _, (slots, slots_size), _ = where
    at = empty_slot(slots, np.uint64(slots_size - 1), hash)
    return _enter(where, slots + 8 * np.int64(at), hash, key, size, end)


@inlined
def _enter(where, slot, hash, key, size, end):
    (meta, heads, counts, blocks), (entries, entries_size), (arena, arena_size), _, _ = where
    width = load_i64(meta + 8 * WIDTH)
    words = _words_for(size)
    block = blocks + 8 * _block_class(words)
    entry, top, arena_top = load_i64(meta + 8 * FREE), load_i64(meta + 8 * TOP), load_i64(meta + 8 * ARENA_TOP)
    store(meta + 8 * NEEDED, words)
    if (
        (entry == NONE and (top + 1) * width > entries_size)
        or load_i64(meta + 8 * USED) >= load_i64(meta + 8 * USED_MAX)
        or (words > 0 and load_i64(block) < 0 and arena_top + words > arena_size)
    ):
        return NONE
    if entry == NONE:
        entry = top
        store(meta + 8 * TOP, top + 1)
    else:
        store(meta + 8 * FREE, load_i64(entries + 8 * (entry * width + LINKS)))
    place = NULL if size == NULL_SIZE else size
    if words > 0:
        place = load_i64(block)
        if place >= 0:
            store(block, load_i64(arena + 8 * place))
        else:
            place = arena_top
            store(meta + 8 * ARENA_TOP, arena_top + words)
        store(arena + 8 * place, size)
        for at in range(0, size, 8):
            store(arena + 8 * place + 8 + at, load_up_to_8(key + at, size - at, end))
    at = entries + 8 * width * entry
    store(at + 8 * PREFIX, np.uint64(0) if size <= 0 else load_up_to_8(key, size, end))
    store(at + 8 * KEY, (hash << HALF) | np.uint64(place))
    bin_id = _bin(load_i64(meta + 8 * SHIFT), hash)
    head = load_i64(heads + 8 * bin_id)
    store(at + 8 * LINKS, (np.uint64(head) << HALF) | np.uint64(NONE))
    if head != NONE:
        linked = entries + 8 * (width * head + LINKS)
        store(linked, (load_u64(linked) & ~LOW) | np.uint64(entry))
    store(heads + 8 * bin_id, entry)
    _add(counts + 8 * bin_id, 1)
    _add(meta + 8 * COUNT, 1)
    _add(meta + 8 * USED, 1)
    store(slot, (hash << HALF) | (np.uint64(entry) + FIRST))
    return entry


@inlined
def empty_slot(slots, mask, hash):
    """The first slot that was never used, from where a hash points to."""
    at = hash & mask
    while load_u64(slots + 8 * np.int64(at)) & LOW != EMPTY:
        at = (at + np.uint64(1)) & mask
    return at


@inlined
def _leave_slot(slots, size, low, entry):
    if size == 0:
        return
    mask = np.uint64(size - 1)
    at = low & mask
    sought = np.uint64(entry) + FIRST
    while True:
        slot = load_u64(slots + 8 * np.int64(at)) & LOW
        if slot == EMPTY:
            return
        if slot == sought:
            store(slots + 8 * np.int64(at), GONE)
            return
        at = (at + np.uint64(1)) & mask


@kernel
def remove(where, entry, bin_id):
    """Forget a key of a bin. `where` is what `places` gave."""
    (meta, heads, counts, blocks), (entries, _), (arena, _), (slots, slots_size), (old, old_size) = where
    width = load_i64(meta + 8 * WIDTH)
    at = entries + 8 * width * entry
    key, links = load_u64(at + 8 * KEY), load_u64(at + 8 * LINKS)
    _leave_slot(slots, slots_size, key >> HALF, entry)
    _leave_slot(old, old_size, key >> HALF, entry)
    place = np.int64(key & LOW)
    if place >= ARENA_FIRST:
        block = blocks + 8 * _block_class(_words_for(load_i64(arena + 8 * place)))
        store(arena + 8 * place, load_i64(block))
        store(block, place)
    after, before = np.int64(links >> HALF), np.int64(links & LOW)
    if before == NONE:
        store(heads + 8 * bin_id, after)
    else:
        linked = entries + 8 * (width * before + LINKS)
        store(linked, (load_u64(linked) & LOW) | (np.uint64(after) << HALF))
    if after != NONE:
        linked = entries + 8 * (width * after + LINKS)
        store(linked, (load_u64(linked) & ~LOW) | np.uint64(before))
    _add(counts + 8 * bin_id, -1)
    _add(meta + 8 * COUNT, -1)
    store(at + 8 * KEY, VACANT)
    store(at + 8 * LINKS, load_i64(meta + 8 * FREE))
    store(meta + 8 * FREE, entry)
