"""A hash table of keys and states, for compiled code: open addressing, and full comparison of keys.

How it lies in memory is told in `routing.columns.table.layout`. Nothing large is copied or cleared at once, for that
would hold the stream up. Entries and arena grow in place. Slots double: before that the new ones are made ready, and
after it the old ones are taken over, a little with every batch. Until all are, both are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from routing.bins import BinId, Bins
from routing.columns.compiled import inlined, kernel
from routing.columns.keys import Keys
from routing.columns.memory import WORD, Array, address_of, empty, load_i64, load_u8, load_u64, prefetch, store
from routing.columns.table.entries import bin_of, empty_slot, entry_addresses, insert, remove
from routing.columns.table.layout import (
    ARENA_FIRST,
    ARENA_TOP,
    COUNT,
    EXACT_WORDS_MAX,
    FIRST,
    FREE,
    HALF,
    KEY,
    LINKS,
    LOW,
    META,
    NEEDED,
    NONE,
    NULL,
    NULL_SIZE,
    PAD,
    PREFIX,
    SHIFT,
    STATE,
    SWEPT,
    TOP,
    USED,
    USED_MAX,
    WIDTH,
    TableView,
    size_of,
    used_max,
)
from routing.columns.table.mmap_array import MmapArray, cleared
from routing.columns.table.probe import AHEAD

SLOTS_MIN, ENTRIES_MIN, ARENA_MIN = 1024, 512, 1024
REBUILT_OF_4 = 3
"""Up to so many quarters of the slots that may be used are made anew, rather than doubled, when the others are used up
by keys that are gone."""
NEXT_SLOTS_MIN = 2**18
"""So many slots, two megabytes, are made ready before they are needed."""
_TOUCHED = 512
"""One word of so many, a page's, is enough."""
_GATHERED_AHEAD = 4 * AHEAD
"""So many rows ahead entries are asked for, when little is done with each."""
_GROWTH_SWEEP = 8
"""So many old slots are taken over per record: a table that grows is through long before it must grow again."""

SWEPT_AT_ONCE_MAX = 2**17
"""So few old slots, a megabyte, are taken over at once, in a millisecond: then no loop has to look at both."""


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
        self._next = np.zeros(0, np.uint64)
        self._ready = 0
        """So many of the next slots have been touched, so that the system has cleared them."""
        self._entries = MmapArray(PAD + ENTRIES_MIN * width)
        self._arena = MmapArray(ARENA_MIN)
        self._heads = np.full(self._bins.count, NONE, np.int64)
        self._counts = np.zeros(self._bins.count, np.int64)
        self._blocks = np.full(EXACT_WORDS_MAX + 33, -1, np.int64)
        self._meta = np.zeros(META, np.int64)
        self._meta[WIDTH], self._meta[SHIFT], self._meta[FREE] = width, self._bins.shift, NONE
        self._meta[ARENA_TOP], self._meta[USED_MAX] = ARENA_FIRST, used_max(SLOTS_MIN)

    def __len__(self) -> int:
        return int(self._meta[COUNT])

    @property
    def state_words(self) -> int:
        """How many words a state has."""
        return self._state_words

    @property
    def nbytes(self) -> int:
        """The memory that it has asked for."""
        words = PAD + self._meta[TOP] * self._meta[WIDTH] + self._meta[ARENA_TOP]
        return int(8 * (words + len(self._slots) + len(self._old) + len(self._next)))

    @property
    def used_bytes(self) -> int:
        """The memory that its keys need, with what growing takes: other slots beside the old, and an eighth more."""
        slots = len(self._slots)
        while REBUILT_OF_4 * used_max(slots) < 4 * self._meta[COUNT]:
            slots *= 2
        entries = self._meta[COUNT] * self._meta[WIDTH]
        return int(16 * slots + 9 * (entries + self._meta[ARENA_TOP]))

    def view(self) -> TableView:
        """What kernels take. It holds until `make_room`."""
        return TableView(
            self._slots,
            self._old,
            self._entries.words,
            self._arena.words,
            self._heads,
            self._counts,
            self._blocks,
            self._meta,
        )

    def make_room(self) -> None:
        """Have room for the key that a kernel had none for."""
        meta = self._meta
        width, needed = int(meta[WIDTH]), int(meta[NEEDED])
        if meta[FREE] == NONE and PAD + (meta[TOP] + 1) * width > len(self._entries.words):
            self._entries.grow(PAD + (int(meta[TOP]) + 1) * width)
        if meta[ARENA_TOP] + needed > len(self._arena.words):
            self._arena.grow(int(meta[ARENA_TOP]) + needed)
        if meta[USED] >= meta[USED_MAX]:
            self.settle(len(self._old))
            many = 4 * meta[COUNT] > REBUILT_OF_4 * meta[USED_MAX]
            size = len(self._slots) * (2 if many else 1)
            self._old, self._slots = self._slots, self._next if len(self._next) == size else cleared(size)
            self._next, self._ready = np.zeros(0, np.uint64), 0
            # All that will be taken over has its place.
            meta[USED], meta[SWEPT], meta[USED_MAX] = meta[COUNT], 0, used_max(len(self._slots))
            if len(self._old) <= SWEPT_AT_ONCE_MAX:
                self.settle(len(self._old))

    def settle(self, records: int) -> None:
        """After so many records were applied: take over some of the old slots, make some of the next ones ready."""
        if len(self._old):
            if _sweep(self.view(), _GROWTH_SWEEP * records + ENTRIES_MIN):
                self._old = np.zeros(0, np.uint64)
        elif len(self._slots) >= NEXT_SLOTS_MIN // 2:
            self._make_ready()

    def _make_ready(self) -> None:
        """Touch as many of the next slots as, of the last quarter of these, were used."""
        most = int(self._meta[USED_MAX])
        since = 4 * int(self._meta[USED]) - 3 * most
        if since <= 0:
            return
        if not len(self._next):
            self._next = cleared(2 * len(self._slots))
        ready = min(len(self._next), len(self._next) * since // most)
        if ready > self._ready:
            self._next[self._ready : ready : _TOUCHED] = 0
            self._ready = ready

    def warm_up(self) -> None:
        """Compile what `settle` and `entries` call; the rest is called by whoever tries a key out."""
        _sweep(self.view(), 0)
        _list(self.view(), np.zeros(len(self), np.int64))

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

    def entries(self) -> Array:
        """All that there are."""
        count = int(self._meta[COUNT])
        if count == self._meta[TOP]:
            return np.arange(count)
        found = np.empty(count, np.int64)
        _list(self.view(), found)
        found.sort()  # memory is read in its own order
        return found

    def gather(self, entries: Array) -> tuple[Array, Array, Array]:
        """Offsets and bytes of the keys of entries, and which are null."""
        offsets, nulls = np.zeros(len(entries) + 1, np.int64), np.zeros(len(entries), np.bool_)
        _gather_sizes(self.view(), entries, offsets, nulls)
        data = empty(int(offsets[-1]) + WORD, np.uint8)
        _gather_bytes(self.view(), entries, offsets, data)
        return offsets, data[: offsets[-1]], nulls if nulls.any() else nulls[:0]

    def words(self, entries: Array, index: int) -> Array:
        """One word of the states of entries."""
        found: Array = self._entries.words[PAD + entries * self._meta[WIDTH] + STATE + index]
        return found

    def forget(self, entries: Array, hashes: Array) -> None:
        """Remove entries, whose keys have these hashes."""
        _forget(self.view(), entries, hashes)

    def bins_in_use(self) -> Array:
        """Of each bin, whether it holds anything."""
        used: Array = self._counts > 0
        return used

    def keys_per_bin(self) -> dict[BinId, int]:
        """The bins that hold anything, with their numbers of keys."""
        return {BinId(int(bin_id)): int(self._counts[bin_id]) for bin_id in np.flatnonzero(self._counts)}

    def close(self) -> None:
        """Let go of everything."""
        self._clear()


def _parts(keys: Keys) -> tuple[Array, Array, Array, Array]:
    return keys.hashes, keys.offsets, keys.data, keys.nulls


@kernel
def _sweep(view, slots_max):
    """Take over old slots; whether that is all."""
    meta, old, slots, mask = view.meta, view.old, address_of(view.slots), np.uint64(len(view.slots) - 1)
    end = min(len(old), meta[SWEPT] + slots_max)
    used = np.empty(64, np.uint64)
    for block in range(meta[SWEPT], end, len(used)):
        count = 0
        for at in range(block, min(block + len(used), end)):
            # Without a branch, which the processor would often foresee wrongly.
            used[count] = old[at]
            count += old[at] & LOW >= FIRST
        for slot in used[:count]:
            store(slots + 8 * np.int64(empty_slot(slots, mask, slot >> HALF)), slot)
    meta[SWEPT] = end
    return end == len(old)


@kernel
def _install(view, first, hashes, offsets, data, nulls, states):
    """From row `first` on; the row that there was no room for, or their number."""
    width, where, begin = view.meta[WIDTH], entry_addresses(view), address_of(data)
    for row in range(first, len(hashes)):
        key = begin + np.int64(offsets[row])
        entry = insert(where, hashes[row], key, size_of(offsets, nulls, row), begin + len(data))
        if entry == NONE:
            return row
        for word in range(states.shape[1]):
            view.entries[PAD + entry * width + STATE + word] = states[row, word]
    return len(hashes)


@kernel
def _list(view, found):
    width, at = view.meta[WIDTH], 0
    for bin_id in range(len(view.heads)):
        entry = view.heads[bin_id]
        while entry != NONE:
            found[at] = entry
            at += 1
            entry = np.int64(view.entries[PAD + entry * width + LINKS] >> HALF)


@kernel
def _forget(view, entries, hashes):
    where = entry_addresses(view)
    for row in range(len(entries)):
        remove(where, entries[row], bin_of(view, hashes[row]))


@inlined
def _size_of(entry, arena):
    """How many bytes the key of the entry at an address has, or `NULL_SIZE`."""
    place = np.int64(load_u64(entry + 8 * KEY) & LOW)
    if place == NULL:
        return NULL_SIZE
    return place if place < ARENA_FIRST else load_i64(arena + 8 * place)


@kernel
def _measure(view, bin_id, bytes_max):
    """How many keys of a bin, from the first on, are within a size, and how many bytes their keys have."""
    begin, arena, width = address_of(view.entries) + 8 * PAD, address_of(view.arena), view.meta[WIDTH]
    count, size = 0, np.int64(0)
    entry = view.heads[bin_id]
    total = np.int64(0)
    while entry != NONE:
        at = begin + 8 * width * entry
        length = max(_size_of(at, arena), np.int64(0))
        total += length + 4 + 8 * (width - STATE)
        if count > 0 and total > bytes_max:
            break
        count += 1
        size += length
        entry = np.int64(load_u64(at + 8 * LINKS) >> HALF)
    return count, size


@kernel
def _extract(view, bin_id, offsets, data, nulls, states):
    begin, arena, width = address_of(view.entries) + 8 * PAD, address_of(view.arena), view.meta[WIDTH]
    where, end = entry_addresses(view), np.int64(0)
    for row in range(len(nulls)):
        entry = view.heads[bin_id]
        at = begin + 8 * width * entry
        size = _size_of(at, arena)
        nulls[row] = size == NULL_SIZE
        for byte in range(size):
            place = at + 8 * PREFIX if byte < 8 else arena + 8 * (np.int64(load_u64(at + 8 * KEY) & LOW) + 1)
            data[end + byte] = np.uint8(load_u8(place + byte))
        end += max(size, np.int64(0))
        offsets[row + 1] = end
        for word in range(states.shape[1]):
            states[row, word] = load_u64(at + 8 * (STATE + word))
        remove(where, entry, bin_id)


@kernel
def _gather_sizes(view, entries, offsets, nulls):
    """Look at entries, which are anywhere in memory: each is asked for some rows ahead."""
    begin, arena, width = address_of(view.entries) + 8 * PAD, address_of(view.arena), view.meta[WIDTH]
    total, last = np.int64(0), len(entries) - 1
    for row in range(len(entries)):
        prefetch(begin + 8 * width * entries[min(row + _GATHERED_AHEAD, last)])
        size = _size_of(begin + 8 * width * entries[row], arena)
        nulls[row] = size == NULL_SIZE
        total += max(size, np.int64(0))
        offsets[row + 1] = total


@kernel
def _gather_bytes(view, entries, offsets, data):
    """Copy keys, whole words at a time: what is written behind one is written over by the next."""
    width, to = view.meta[WIDTH], address_of(data)
    for row in range(len(entries)):
        base = PAD + entries[row] * width
        size = offsets[row + 1] - offsets[row]
        if size > 0:
            store(to + offsets[row], view.entries[base + PREFIX])
        if size > 8:
            place = np.int64(view.entries[base + KEY] & LOW) + 1
            for word in range(1, (size + 7) // 8):
                store(to + offsets[row] + 8 * word, view.arena[place + word])
