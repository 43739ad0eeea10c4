"""A hash table of keys and states, for compiled code: open addressing, and full comparison of keys.

*Slots* say where an entry is: the low 32 bits of the hash, and the number of the entry. They are probed one after the
other from where the hash points to. An *entry* is a few words in a row: the first 8 bytes of the key; 32 bits of the
hash again, with the size of a key that is not longer, or else its place; links to the entries of the same bin before
and after it; and the state. Longer keys are in the *arena*, in whole words, after their size. So a key is mostly found
with one look at a slot and one at an entry, which is half a cache line, and a bin's entries without looking at others.

Nothing is ever copied all at once, for that would hold the stream up: entries and arena grow by an eighth, which the
operating system does by moving pages; slots double, and a little of the old ones is taken over with every batch.
Until all is, both are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from routing.bins import BinId, Bins
from routing.columns.compiled import inlined, kernel
from routing.columns.keys import Array, Keys
from routing.columns.memory import load_u64, load_up_to_8, prefetch

# The words of an entry.
PREFIX, KEY, LINKS, STATE = 0, 1, 2, 3

PAD = 6
"""Words before the first entry: the system gives out large arrays 16 bytes after the beginning of a cache line."""

# What a table knows of itself.
WIDTH, SHIFT, COUNT, TOP, FREE, USED, ARENA_TOP, SWEPT, NEEDED, _META = range(10)

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_NONE = np.int64(0xFFFFFFFF)
"""No entry."""
_NULL = np.int64(9)
"""As a size: that of a key that is null. Sizes beyond 8 are in the arena, so this is nobody else's."""
_ARENA_FIRST = 16
"""Places begin here, so that they are no sizes."""
NULL_SIZE = np.int64(-1)
"""What kernels are told is the size of a key that is null."""

_EMPTY, _GONE, _FIRST = np.uint64(0), np.uint64(1), np.uint64(2)
"""What the low half of a slot says: nothing was ever here, something was, and so much more than an entry's number."""

_EXACT_WORDS_MAX = 64
"""Keys of up to so many words take just these; longer ones the next power of two."""

NEAR_SLOTS_MAX = 2**14
"""A table with more slots is larger than what is near the processor."""

SLOTS_MIN, ENTRIES_MIN, ARENA_MIN = 1024, 512, 1024
_GROWTH_SWEEP = 8
"""So many old slots are taken over per record: a table that grows is through long before it must grow again."""


class View(NamedTuple):
    """The arrays of a table, as kernels take them."""

    slots: Array
    old: Array
    """The slots before the last doubling, while they are taken over; else empty."""
    entries: Array
    arena: Array
    heads: Array
    """The first entry of each bin."""
    counts: Array
    """How many keys each bin has."""
    blocks: Array
    """The first free block of the arena, by size."""
    meta: Array


class Table:
    """Keys and their states, on one worker, for one operator. A state is some words of 8 bytes."""

    def __init__(self, bins: Bins, state_words: int) -> None:
        self._bins = bins
        self._state_words = state_words
        self._clear()

    def _clear(self) -> None:
        width = STATE + self._state_words
        self._slots = np.zeros(SLOTS_MIN, np.uint64)
        self._old = np.zeros(0, np.uint64)
        self._entries = np.zeros(PAD + ENTRIES_MIN * width, np.uint64)
        self._arena = np.zeros(ARENA_MIN, np.uint64)
        self._heads = np.full(self._bins.count, _NONE, np.int64)
        self._counts = np.zeros(self._bins.count, np.int64)
        self._blocks = np.full(_EXACT_WORDS_MAX + 33, -1, np.int64)
        self._meta = np.zeros(_META, np.int64)
        self._meta[WIDTH], self._meta[SHIFT], self._meta[FREE] = width, self._bins.shift, _NONE
        self._meta[ARENA_TOP] = _ARENA_FIRST

    def __len__(self) -> int:
        return int(self._meta[COUNT])

    @property
    def state_words(self) -> int:
        """How many words a state has."""
        return self._state_words

    @property
    def nbytes(self) -> int:
        """The memory that it has asked for."""
        return sum(array.nbytes for array in (self._slots, self._old, self._entries, self._arena))

    def view(self) -> View:
        """What kernels take. It holds until `make_room`."""
        return View(
            self._slots,
            self._old,
            self._entries,
            self._arena,
            self._heads,
            self._counts,
            self._blocks,
            self._meta,
        )

    def make_room(self) -> None:
        """Have room for the key that a kernel had none for."""
        meta = self._meta
        width, needed = int(meta[WIDTH]), int(meta[NEEDED])
        if meta[FREE] == _NONE and PAD + meta[TOP] * width == len(self._entries):
            self._entries.resize(PAD + _grown(int(meta[TOP])) * width, refcheck=False)
        if meta[ARENA_TOP] + needed > len(self._arena):
            self._arena.resize(max(_grown(len(self._arena)), len(self._arena) + needed), refcheck=False)
        if meta[USED] >= _used_max(len(self._slots)):
            self.settle(len(self._old))
            many = 2 * meta[COUNT] > _used_max(len(self._slots))
            self._old, self._slots = self._slots, np.zeros(len(self._slots) * (2 if many else 1), np.uint64)
            meta[USED], meta[SWEPT] = meta[COUNT], 0  # all that will be taken over has its place

    def settle(self, records: int) -> None:
        """After so many records were applied: take over some of the old slots."""
        if len(self._old) and _sweep(self.view(), _GROWTH_SWEEP * records + ENTRIES_MIN):
            self._old = np.zeros(0, np.uint64)

    def warm_up(self) -> None:
        """Compile what `settle` calls; the rest is called by whoever tries a key out."""
        _sweep(self.view(), 0)

    def install(self, keys: Keys, states: Array) -> None:
        """Put in keys that are not there, with their states, a row of words each."""
        at = 0
        while (at := _install(self.view(), at, *_parts(keys), states)) < len(keys):
            self.make_room()
        self.settle(len(keys))

    def extract(self, bin_id: BinId, bytes_max: int) -> Iterator[tuple[Array, Array, Array, Array]]:
        """Take a bin out, some keys at a time: offsets and bytes of keys, which are null, and their states."""
        while self._counts[bin_id]:
            count, size = _measure(self.view(), bin_id, bytes_max)
            offsets, data = np.zeros(count + 1, np.int32), np.empty(size, np.uint8)
            nulls, states = np.zeros(count, np.bool_), np.empty((count, self._state_words), np.uint64)
            _extract(self.view(), bin_id, offsets, data, nulls, states)
            yield offsets, data, nulls if nulls.any() else nulls[:0], states
        if not self._meta[COUNT]:
            self._clear()

    def gather(self, entries: Array) -> tuple[Array, Array, Array]:
        """Offsets and bytes of the keys of entries, and which are null."""
        offsets, nulls = np.zeros(len(entries) + 1, np.int64), np.zeros(len(entries), np.bool_)
        _gather_sizes(self.view(), entries, offsets, nulls)
        data = np.empty(offsets[-1], np.uint8)
        _gather_bytes(self.view(), entries, offsets, data)
        return offsets, data, nulls if nulls.any() else nulls[:0]

    def words(self, entries: Array, index: int) -> Array:
        """One word of the states of entries."""
        found: Array = self._entries[PAD + entries * self._meta[WIDTH] + STATE + index]
        return found

    def forget(self, entries: Array, hashes: Array) -> None:
        """Remove entries, whose keys have these hashes."""
        _forget(self.view(), entries, hashes)

    def keys_per_bin(self) -> dict[BinId, int]:
        """The bins that hold anything, with their numbers of keys."""
        return {BinId(int(bin_id)): int(self._counts[bin_id]) for bin_id in np.flatnonzero(self._counts)}

    def close(self) -> None:
        """Let go of everything."""
        self._clear()


def _grown(size: int) -> int:
    return 2 * size if size < 2**16 else size + size // 8


def _used_max(slots: int) -> int:
    return slots // 16 * 11


def _parts(keys: Keys) -> tuple[Array, Array, Array, Array]:
    return keys.hashes, keys.offsets, keys.data, keys.nulls


@inlined
def size_of(offsets, nulls, row):
    """How many bytes a key has, or `NULL_SIZE`."""
    if len(nulls) > 0 and nulls[row]:
        return NULL_SIZE
    return np.int64(offsets[row + 1]) - np.int64(offsets[row])


# To find a key. Only numbers are handed around: see `routing.columns.memory`.


@inlined
def addresses(view, data):
    """What `find` needs to know of a table, and of the bytes of keys."""
    return (
        (view.slots.ctypes.data, np.uint64(len(view.slots) - 1)),
        (view.old.ctypes.data, np.uint64(len(view.old) - 1) if len(view.old) > 0 else np.uint64(0)),
        (view.entries.ctypes.data + 8 * PAD, view.arena.ctypes.data, view.meta[WIDTH]),
        (data.ctypes.data, data.ctypes.data + len(data)),
    )


@inlined
def find(where, hash, start, size):
    """The entry of a key, or -1. `where` is what `addresses` gave."""
    (slots, mask), (old, old_mask), (entries, arena, width), (data, end) = where
    key = data + start
    prefix = np.uint64(0) if size <= 0 else load_up_to_8(key, size, end)
    entry = _look_up(slots, mask, entries, arena, width, hash, key, size, end, prefix)
    if entry < 0 and old_mask != np.uint64(0):
        entry = _look_up(old, old_mask, entries, arena, width, hash, key, size, end, prefix)
    return entry


@inlined
def _look_up(slots, mask, entries, arena, width, hash, key, size, end, prefix):
    tag = hash << _HALF
    at = hash & mask
    while True:
        slot = load_u64(slots + 8 * np.int64(at))
        low = slot & _LOW
        if low == _EMPTY:
            return np.int64(-1)
        if slot ^ low == tag and low >= _FIRST:
            entry = np.int64(low - _FIRST)
            if _matches(entries + 8 * width * entry, arena, tag, key, size, end, prefix):
                return entry
        at = (at + np.uint64(1)) & mask


@inlined
def _matches(entry, arena, tag, key, size, end, prefix):
    """Whether the entry at an address is that of the key whose bytes are at another."""
    if load_u64(entry + 8 * PREFIX) != prefix:
        return False
    stored = load_u64(entry + 8 * KEY)
    if size <= 8:
        return stored == tag | np.uint64(_NULL if size == NULL_SIZE else size)
    place = np.int64(stored & _LOW)
    if place < _ARENA_FIRST:
        return False
    bytes_at = arena + 8 * place
    if np.int64(load_u64(bytes_at)) != size:
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
    """Have a key's slot on its way from memory."""
    (slots, mask), _, _, _ = where
    prefetch(slots + 8 * np.int64(hash & mask))


@inlined
def prefetch_entry(where, hash):
    """Have on its way from memory the entry that a key's slots, which are there by now, lead to."""
    (slots, mask), _, (entries, _, width), _ = where
    tag = hash << _HALF
    at = hash & mask
    while True:
        slot = load_u64(slots + 8 * np.int64(at))
        low = slot & _LOW
        if low == _EMPTY:
            return
        if slot ^ low == tag and low >= _FIRST:
            prefetch(entries + 8 * width * np.int64(low - _FIRST))
            return
        at = (at + np.uint64(1)) & mask


# To change a table.


@inlined
def _prefix(data, start, size):
    """The first 8 bytes of a key, or all of it and zeros."""
    if size <= 0:
        return np.uint64(0)
    begin = data.ctypes.data
    return load_up_to_8(begin + start, size, begin + len(data))


@inlined
def _words_for(size):
    """How many words of the arena a key takes, with its size."""
    if size <= 8:
        return np.int64(0)
    words = 1 + (size + 7) // 8
    if words > _EXACT_WORDS_MAX:
        power = np.int64(_EXACT_WORDS_MAX)
        while power < words:
            power *= 2
        words = power
    return words


@inlined
def _block_class(words):
    if words <= _EXACT_WORDS_MAX:
        return words
    kind = np.int64(_EXACT_WORDS_MAX)
    while words > _EXACT_WORDS_MAX:
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
        (entry == _NONE and PAD + (meta[TOP] + 1) * width > len(entries))
        or meta[USED] >= len(view.slots) // 16 * 11
        or (words > 0 and view.blocks[kind] < 0 and meta[ARENA_TOP] + words > len(view.arena))
    ):
        return np.int64(-1)
    if entry == _NONE:
        entry = meta[TOP]
        meta[TOP] += 1
    else:
        meta[FREE] = np.int64(entries[PAD + entry * width + LINKS])
    base = PAD + entry * width
    place = _NULL if size == NULL_SIZE else size
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
    entries[base + KEY] = (hash << _HALF) | np.uint64(place)
    bin_id = bin_of(view, hash)
    head = view.heads[bin_id]
    entries[base + LINKS] = (np.uint64(head) << _HALF) | np.uint64(_NONE)
    if head != _NONE:
        linked = PAD + head * width + LINKS
        entries[linked] = (entries[linked] & ~_LOW) | np.uint64(entry)
    view.heads[bin_id] = entry
    view.counts[bin_id] += 1
    meta[COUNT] += 1
    meta[USED] += 1
    _take_slot(view.slots, hash & _LOW, entry)
    return entry


@inlined
def _take_slot(slots, low, entry):
    """Have a slot lead to an entry; `low` is the low half of its key's hash."""
    mask = np.uint64(len(slots) - 1)
    at = low & mask
    while slots[at] & _LOW != _EMPTY:
        at = (at + np.uint64(1)) & mask
    slots[at] = (low << _HALF) | (np.uint64(entry) + _FIRST)


@inlined
def _leave_slot(slots, low, entry):
    if len(slots) == 0:
        return
    mask = np.uint64(len(slots) - 1)
    at = low & mask
    sought = np.uint64(entry) + _FIRST
    while slots[at] & _LOW != _EMPTY:
        if slots[at] & _LOW == sought:
            slots[at] = _GONE
            return
        at = (at + np.uint64(1)) & mask


@kernel
def remove(view, entry, bin_id):
    """Forget a key of a bin."""
    meta, entries = view.meta, view.entries
    width = meta[WIDTH]
    base = PAD + entry * width
    key, links = entries[base + KEY], entries[base + LINKS]
    _leave_slot(view.slots, key >> _HALF, entry)
    _leave_slot(view.old, key >> _HALF, entry)
    place = np.int64(key & _LOW)
    if place >= _ARENA_FIRST:
        kind = _block_class(_words_for(np.int64(view.arena[place])))
        view.arena[place] = np.uint64(view.blocks[kind])
        view.blocks[kind] = place
    after, before = np.int64(links >> _HALF), np.int64(links & _LOW)
    if before == _NONE:
        view.heads[bin_id] = after
    else:
        linked = PAD + before * width + LINKS
        entries[linked] = (entries[linked] & _LOW) | (np.uint64(after) << _HALF)
    if after != _NONE:
        linked = PAD + after * width + LINKS
        entries[linked] = (entries[linked] & ~_LOW) | np.uint64(before)
    view.counts[bin_id] -= 1
    meta[COUNT] -= 1
    entries[base + LINKS] = np.uint64(meta[FREE])
    meta[FREE] = entry


@kernel
def _sweep(view, slots_max):
    """Take over old slots; whether that is all."""
    meta, old = view.meta, view.old
    end = min(len(old), meta[SWEPT] + slots_max)
    for at in range(meta[SWEPT], end):
        low = old[at] & _LOW
        if low >= _FIRST:
            _take_slot(view.slots, old[at] >> _HALF, np.int64(low - _FIRST))
    meta[SWEPT] = end
    return end == len(old)


@kernel
def _install(view, first, hashes, offsets, data, nulls, states):
    """From row `first` on; the row that there was no room for, or their number."""
    width = view.meta[WIDTH]
    for row in range(first, len(hashes)):
        entry = insert(view, hashes[row], data, np.int64(offsets[row]), size_of(offsets, nulls, row))
        if entry < 0:
            return row
        for word in range(states.shape[1]):
            view.entries[PAD + entry * width + STATE + word] = states[row, word]
    return len(hashes)


@kernel
def _forget(view, entries, hashes):
    for row in range(len(entries)):
        remove(view, entries[row], bin_of(view, hashes[row]))


# To take keys out.


@inlined
def _size_at(view, base):
    """How many bytes the key of an entry has, or `NULL_SIZE`."""
    place = np.int64(view.entries[base + KEY] & _LOW)
    if place == _NULL:
        return NULL_SIZE
    return place if place < _ARENA_FIRST else np.int64(view.arena[place])


@kernel
def _measure(view, bin_id, bytes_max):
    """How many keys of a bin, from the first on, are within a size, and how many bytes their keys have."""
    width = view.meta[WIDTH]
    count, size = 0, np.int64(0)
    entry = view.heads[bin_id]
    total = np.int64(0)
    while entry != _NONE:
        base = PAD + entry * width
        length = max(_size_at(view, base), np.int64(0))
        total += length + 4 + 8 * (width - STATE)
        if count > 0 and total > bytes_max:
            break
        count += 1
        size += length
        entry = np.int64(view.entries[base + LINKS] >> _HALF)
    return count, size


@inlined
def _copy_key(view, base, out, at):
    """Write a key's bytes; where the next one begins."""
    size = _size_at(view, base)
    place = np.int64(view.entries[base + KEY] & _LOW) + 1
    for byte in range(size):
        word = view.entries[base + PREFIX] if byte < 8 else view.arena[place + byte // 8]
        out[at + byte] = np.uint8((word >> np.uint64(8 * (byte % 8))) & np.uint64(255))
    return at + max(size, np.int64(0))


@kernel
def _extract(view, bin_id, offsets, data, nulls, states):
    width = view.meta[WIDTH]
    at = np.int64(0)
    for row in range(len(nulls)):
        entry = view.heads[bin_id]
        base = PAD + entry * width
        nulls[row] = _size_at(view, base) == NULL_SIZE
        at = _copy_key(view, base, data, at)
        offsets[row + 1] = at
        for word in range(states.shape[1]):
            states[row, word] = view.entries[base + STATE + word]
        remove(view, entry, bin_id)


@kernel
def _gather_sizes(view, entries, offsets, nulls):
    width = view.meta[WIDTH]
    for row in range(len(entries)):
        size = _size_at(view, PAD + entries[row] * width)
        nulls[row] = size == NULL_SIZE
        offsets[row + 1] = offsets[row] + max(size, np.int64(0))


@kernel
def _gather_bytes(view, entries, offsets, data):
    width = view.meta[WIDTH]
    for row in range(len(entries)):
        _copy_key(view, PAD + entries[row] * width, data, offsets[row])
