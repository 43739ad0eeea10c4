"""Entries that come into a table and leave it, their keys, and the slots that lead to them.

Kernels call these for each key that is new or goes; they hand over addresses, for the reason that
`routing.columns.memory` gives.
"""

from __future__ import annotations

import numpy as np

from routing.columns.compiled import inlined, kernel
from routing.columns.memory import address_of, load_i64, load_u64, load_up_to_8, store
from routing.columns.table.layout import (
    ARENA,
    ARENA_FIRST,
    ARENA_SIZE,
    ARENA_TOP,
    BLOCKS,
    COUNT,
    COUNTS,
    EMPTY,
    ENTRIES,
    ENTRIES_SIZE,
    EXACT_WORDS_MAX,
    FIRST,
    FREE,
    GONE,
    HALF,
    HEADS,
    KEY,
    LINKS,
    LOW,
    NEEDED,
    NONE,
    NULL,
    NULL_SIZE,
    OLD,
    OLD_SIZE,
    PAD,
    PREFIX,
    SHIFT,
    SLOTS,
    SLOTS_SIZE,
    SWEPT,
    TOP,
    USED,
    USED_MAX,
    VACANT,
    WIDTH,
)
from routing.columns.table.probe import find, matches


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
def entry_addresses(view):
    """What `insert` and `remove` need to know of a table: where it says where its arrays are.

    This is one number, for a call takes the longer, the more it hands over.
    """
    meta = view.meta
    meta[HEADS], meta[COUNTS], meta[BLOCKS] = address_of(view.heads), address_of(view.counts), address_of(view.blocks)
    meta[ENTRIES], meta[ENTRIES_SIZE] = address_of(view.entries) + 8 * PAD, len(view.entries) - PAD
    meta[ARENA], meta[ARENA_SIZE] = address_of(view.arena), len(view.arena)
    meta[SLOTS], meta[SLOTS_SIZE] = address_of(view.slots), len(view.slots)
    meta[OLD], meta[OLD_SIZE] = address_of(view.old), len(view.old)
    return address_of(meta)


@inlined
def _known(meta, what):
    return load_i64(meta + 8 * what)


@inlined
def _add(address, difference):
    store(address, load_i64(address) + difference)


@kernel
def find_or_insert(meta, data, end, candidate, hash, start, size):
    """The entry of a key that its candidate is not, or not seen to be; ~ a new one, if it has none.

    It is ~ `NONE` if there is no room. `meta` is what `entry_addresses` gave; keys lie from `data` on, and memory may
    end at     `end`.
    """
    entries, arena, width = _known(meta, ENTRIES), _known(meta, ARENA), _known(meta, WIDTH)
    if candidate >= 0 and size > 8:
        prefix = load_up_to_8(data + start, size, end)
        if matches(entries + 8 * width * candidate, arena, hash << HALF, data + start, size, end, prefix):
            return candidate
    slots, mask, old_size = _known(meta, SLOTS), np.uint64(_known(meta, SLOTS_SIZE) - 1), _known(meta, OLD_SIZE)
    at = np.uint64(~candidate)
    # Who finds a slot still empty need not look again, for the key would be there by now; the old ones tell nothing.
    if candidate >= 0 or old_size > 0 or load_u64(slots + 8 * np.int64(at)) & LOW != EMPTY:
        old = _known(meta, OLD), np.uint64(max(old_size - 1, 0)), np.uint64(_known(meta, SWEPT))
        entry = find(((slots, mask), old, (entries, arena, width), (data, end)), hash, start, size)
        if entry >= 0:
            return entry
        at = empty_slot(slots, mask, hash)
    return ~_enter(meta, slots + 8 * np.int64(at), hash, data + start, size, end)


@kernel
def insert(meta, hash, key, size, end):
    """The new entry of a key that is not there, or `NONE` if there is no room. Its state is for the caller to set.

    `meta` is what `entry_addresses` gave; the key's bytes are at an address, and memory may end at `end`.
    """
    slots = _known(meta, SLOTS)
    at = empty_slot(slots, np.uint64(_known(meta, SLOTS_SIZE) - 1), hash)
    return _enter(meta, slots + 8 * np.int64(at), hash, key, size, end)


@inlined
def _enter(meta, slot, hash, key, size, end):
    width, entries, arena = _known(meta, WIDTH), _known(meta, ENTRIES), _known(meta, ARENA)
    words = _words_for(size)
    block = _known(meta, BLOCKS) + 8 * _block_class(words)
    entry, top, arena_top = _known(meta, FREE), _known(meta, TOP), _known(meta, ARENA_TOP)
    store(meta + 8 * NEEDED, words)
    if (
        (entry == NONE and (top + 1) * width > _known(meta, ENTRIES_SIZE))
        or _known(meta, USED) >= _known(meta, USED_MAX)
        or (words > 0 and load_i64(block) < 0 and arena_top + words > _known(meta, ARENA_SIZE))
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
    bin_id = _bin(_known(meta, SHIFT), hash)
    head_at = _known(meta, HEADS) + 8 * bin_id
    head = load_i64(head_at)
    store(at + 8 * LINKS, (np.uint64(head) << HALF) | np.uint64(NONE))
    if head != NONE:
        linked = entries + 8 * (width * head + LINKS)
        store(linked, (load_u64(linked) & ~LOW) | np.uint64(entry))
    store(head_at, entry)
    _add(_known(meta, COUNTS) + 8 * bin_id, 1)
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
def remove(meta, entry, bin_id):
    """Forget a key of a bin. `meta` is what `entry_addresses` gave."""
    width, entries, arena = _known(meta, WIDTH), _known(meta, ENTRIES), _known(meta, ARENA)
    at = entries + 8 * width * entry
    key, links = load_u64(at + 8 * KEY), load_u64(at + 8 * LINKS)
    _leave_slot(_known(meta, SLOTS), _known(meta, SLOTS_SIZE), key >> HALF, entry)
    _leave_slot(_known(meta, OLD), _known(meta, OLD_SIZE), key >> HALF, entry)
    place = np.int64(key & LOW)
    if place >= ARENA_FIRST:
        block = _known(meta, BLOCKS) + 8 * _block_class(_words_for(load_i64(arena + 8 * place)))
        store(arena + 8 * place, load_i64(block))
        store(block, place)
    after, before = np.int64(links >> HALF), np.int64(links & LOW)
    if before == NONE:
        store(_known(meta, HEADS) + 8 * bin_id, after)
    else:
        linked = entries + 8 * (width * before + LINKS)
        store(linked, (load_u64(linked) & LOW) | (np.uint64(after) << HALF))
    if after != NONE:
        linked = entries + 8 * (width * after + LINKS)
        store(linked, (load_u64(linked) & ~LOW) | np.uint64(before))
    _add(_known(meta, COUNTS) + 8 * bin_id, -1)
    _add(meta + 8 * COUNT, -1)
    store(at + 8 * KEY, VACANT)
    store(at + 8 * LINKS, _known(meta, FREE))
    store(meta + 8 * FREE, entry)
