"""Inserts and removes entries, with the arena blocks of their keys and their slots.

Kernels call these for each key that is new or goes; arguments are addresses, for the reason that
`routing.columns.memory` gives. Nothing is allocated here: an insertion that lacks room answers `NO_ENTRY`, and the
caller has the table grow.
"""

from __future__ import annotations

import numpy as np

from framework.errors import ProtocolError
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
    ENTRY_OFFSET,
    EXACT_WORDS_MAX,
    FREE,
    FREE_ENTRY,
    HALF_BITS,
    HEADS,
    KEY,
    LINKS,
    LOW_MASK,
    NEEDED,
    NO_ENTRY,
    NULL_KEY,
    NULL_SIZE,
    OLD,
    OLD_SIZE,
    PAD,
    PREFIX,
    REHASHED,
    SHIFT,
    SLOTS,
    SLOTS_SIZE,
    TOMBSTONE,
    TOP,
    USED,
    USED_MAX,
    WIDTH,
)
from routing.columns.table.probe import find, matches


@inlined
def _words_for(size):
    """The number of arena words that a key takes, with its size."""
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
def _size_class(words):
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
def meta_address(view):
    """Write the addresses and sizes of a table's arrays into its `meta`, and return the address of that.

    `insert` and `remove` take this one number: a call takes longer with every argument.
    """
    meta = view.meta
    meta[HEADS], meta[COUNTS], meta[BLOCKS] = address_of(view.heads), address_of(view.counts), address_of(view.blocks)
    meta[ENTRIES], meta[ENTRIES_SIZE] = address_of(view.entries) + 8 * PAD, len(view.entries) - PAD
    meta[ARENA], meta[ARENA_SIZE] = address_of(view.arena), len(view.arena)
    meta[SLOTS], meta[SLOTS_SIZE] = address_of(view.slots), len(view.slots)
    meta[OLD], meta[OLD_SIZE] = address_of(view.old), len(view.old)
    return address_of(meta)


@inlined
def _meta(meta, index):
    return load_i64(meta + 8 * index)


@inlined
def _add(address, difference):
    store(address, load_i64(address) + difference)


@kernel
def find_or_insert(meta, data, end, candidate, hash, start, size):
    """The entry of a key whose candidate `is_entry_of` has rejected; ~ a new one if there is none, ~ `NO_ENTRY` without
    room.

    `meta` is what `meta_address` returned; keys lie from `data` on, and memory may end at `end`.
    """
    entries, arena, width = _meta(meta, ENTRIES), _meta(meta, ARENA), _meta(meta, WIDTH)
    if candidate >= 0 and size > 8:
        prefix = load_up_to_8(data + start, size, end)
        if matches(entries + 8 * width * candidate, arena, hash << HALF_BITS, data + start, size, end, prefix):
            return candidate
    slots, mask, old_size = _meta(meta, SLOTS), np.uint64(_meta(meta, SLOTS_SIZE) - 1), _meta(meta, OLD_SIZE)
    at = np.uint64(~candidate)
    # If the empty slot that ended the candidate's probe is still empty, the key is still absent: its insertion would
    # have taken that slot. Of the old slots this tells nothing.
    if candidate >= 0 or old_size > 0 or load_u64(slots + 8 * np.int64(at)) & LOW_MASK != EMPTY:
        old = _meta(meta, OLD), np.uint64(max(old_size - 1, 0)), np.uint64(_meta(meta, REHASHED))
        entry = find(((slots, mask), old, (entries, arena, width), (data, end)), hash, start, size)
        if entry >= 0:
            return entry
        at = empty_slot(slots, mask, hash)
    return ~_insert_at(meta, slots + 8 * np.int64(at), hash, data + start, size, end)


@kernel
def insert(meta, hash, key, size, end):
    """The new entry of a key that is absent, or `NO_ENTRY` without room. The caller initialises its state.

    `meta` is what `meta_address` returned; the key's bytes are at an address, and memory may end at `end`.
    """
    slots = _meta(meta, SLOTS)
    at = empty_slot(slots, np.uint64(_meta(meta, SLOTS_SIZE) - 1), hash)
    return _insert_at(meta, slots + 8 * np.int64(at), hash, key, size, end)


@inlined
def _insert_at(meta, slot, hash, key, size, end):
    width, entries, arena = _meta(meta, WIDTH), _meta(meta, ENTRIES), _meta(meta, ARENA)
    words = _words_for(size)
    block = _meta(meta, BLOCKS) + 8 * _size_class(words)
    entry, top, arena_top = _meta(meta, FREE), _meta(meta, TOP), _meta(meta, ARENA_TOP)
    store(meta + 8 * NEEDED, words)
    if (
        (entry == NO_ENTRY and (top + 1) * width > _meta(meta, ENTRIES_SIZE))
        or _meta(meta, USED) >= _meta(meta, USED_MAX)
        or (words > 0 and load_i64(block) < 0 and arena_top + words > _meta(meta, ARENA_SIZE))
    ):
        return NO_ENTRY
    if entry == NO_ENTRY:
        entry = top
        store(meta + 8 * TOP, top + 1)
    else:
        store(meta + 8 * FREE, load_i64(entries + 8 * (entry * width + LINKS)))
    place = NULL_KEY if size == NULL_SIZE else size
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
    store(at + 8 * KEY, (hash << HALF_BITS) | np.uint64(place))
    bin_id = _bin(_meta(meta, SHIFT), hash)
    head_at = _meta(meta, HEADS) + 8 * bin_id
    head = load_i64(head_at)
    store(at + 8 * LINKS, (np.uint64(head) << HALF_BITS) | np.uint64(NO_ENTRY))
    if head != NO_ENTRY:
        linked = entries + 8 * (width * head + LINKS)
        store(linked, (load_u64(linked) & ~LOW_MASK) | np.uint64(entry))
    store(head_at, entry)
    _add(_meta(meta, COUNTS) + 8 * bin_id, 1)
    _add(meta + 8 * COUNT, 1)
    _add(meta + 8 * USED, 1)
    store(slot, (hash << HALF_BITS) | (np.uint64(entry) + ENTRY_OFFSET))
    return entry


@inlined
def empty_slot(slots, mask, hash):
    """The first empty slot from a hash's own on; tombstones are not reused."""
    at = hash & mask
    while load_u64(slots + 8 * np.int64(at)) & LOW_MASK != EMPTY:
        at = (at + np.uint64(1)) & mask
    return at


@inlined
def _mark_tombstone(slots, size, low, entry):
    if size == 0:
        return
    mask = np.uint64(size - 1)
    at = low & mask
    wanted = np.uint64(entry) + ENTRY_OFFSET
    while True:
        slot = load_u64(slots + 8 * np.int64(at)) & LOW_MASK
        if slot == EMPTY:
            return
        if slot == wanted:
            store(slots + 8 * np.int64(at), TOMBSTONE)
            return
        at = (at + np.uint64(1)) & mask


@kernel
def remove(meta, entry, bin_id):
    """Remove an entry of a bin. `meta` is what `meta_address` returned.

    The bin follows from a hash, and a peer may have sent a key with another key's: its list must stay whole.
    """
    width, entries, arena = _meta(meta, WIDTH), _meta(meta, ENTRIES), _meta(meta, ARENA)
    at = entries + 8 * width * entry
    key, links = load_u64(at + 8 * KEY), load_u64(at + 8 * LINKS)
    if np.int64(links & LOW_MASK) == NO_ENTRY and load_i64(_meta(meta, HEADS) + 8 * bin_id) != entry:
        raise ProtocolError("a key came with the hash of another")
    _mark_tombstone(_meta(meta, SLOTS), _meta(meta, SLOTS_SIZE), key >> HALF_BITS, entry)
    _mark_tombstone(_meta(meta, OLD), _meta(meta, OLD_SIZE), key >> HALF_BITS, entry)
    place = np.int64(key & LOW_MASK)
    if place >= ARENA_FIRST:
        block = _meta(meta, BLOCKS) + 8 * _size_class(_words_for(load_i64(arena + 8 * place)))
        store(arena + 8 * place, load_i64(block))
        store(block, place)
    after, before = np.int64(links >> HALF_BITS), np.int64(links & LOW_MASK)
    if before == NO_ENTRY:
        store(_meta(meta, HEADS) + 8 * bin_id, after)
    else:
        linked = entries + 8 * (width * before + LINKS)
        store(linked, (load_u64(linked) & LOW_MASK) | (np.uint64(after) << HALF_BITS))
    if after != NO_ENTRY:
        linked = entries + 8 * (width * after + LINKS)
        store(linked, (load_u64(linked) & ~LOW_MASK) | np.uint64(before))
    _add(_meta(meta, COUNTS) + 8 * bin_id, -1)
    _add(meta + 8 * COUNT, -1)
    store(at + 8 * KEY, FREE_ENTRY)
    store(at + 8 * LINKS, _meta(meta, FREE))
    store(meta + 8 * FREE, entry)
