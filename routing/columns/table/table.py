"""A hash table of keys and states, for compiled code: open addressing, linear probing, full comparison of keys.

The memory layout is that of `routing.columns.table.layout`. Kernels insert and remove; this class decides when and how
the arrays grow. No pause grows with the table: entries and arena are remapped in place, and slots double by incremental
rehash. Before a doubling the new slots are faulted in, after it the old ones are rehashed, some with every batch; until
that is done, lookups probe both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from routing.bins import BinId, Bins
from routing.columns.compiled import inlined, kernel
from routing.columns.keys import Keys
from routing.columns.memory import WORD, Array, address_of, empty, load_i64, load_u8, load_u64, prefetch, store
from routing.columns.table.entries import bin_of, empty_slot, insert, meta_address, remove
from routing.columns.table.layout import (
    ARENA_FIRST,
    ARENA_TOP,
    COUNT,
    ENTRY_OFFSET,
    EXACT_WORDS_MAX,
    FREE,
    HALF_BITS,
    KEY,
    LINKS,
    LOW_MASK,
    META_WORDS,
    NEEDED,
    NO_ENTRY,
    NULL_KEY,
    NULL_SIZE,
    PAD,
    PREFIX,
    REHASHED,
    SHIFT,
    STATE,
    TOP,
    USED,
    USED_MAX,
    WIDTH,
    TableView,
    size_of,
    used_max,
)
from routing.columns.table.mmap_array import MmapArray, mapped_zeros
from routing.columns.table.probe import PREFETCH_DISTANCE

SLOTS_MIN, ENTRIES_MIN, ARENA_MIN = 1024, 512, 1024
REHASH_QUARTERS_MAX = 3
"""If live keys use at most this many quarters of the slots that may be used, tombstones use the rest: then slots are
rehashed to as many, not doubled."""
PREFAULT_SLOTS_MIN = 2**18
"""Arrays of at least this many slots, 2 MB, are allocated and faulted in before they are needed."""
_PAGE_WORDS = 512
"""To fault a page in, one word of it is written."""
_GATHER_PREFETCH_DISTANCE = 4 * PREFETCH_DISTANCE
"""How many rows ahead entries are prefetched by loops that do little with each."""
_REHASHED_PER_RECORD = 8
"""Old slots rehashed per record that was applied: rehashing ends long before the next doubling."""

REHASHED_AT_ONCE_MAX = 2**17
"""Up to this many old slots, 1 MB, are rehashed at once, in a millisecond: then no lookup probes both arrays."""


class Table:
    """The keys of one operator on one worker, with their states of a fixed number of words."""

    def __init__(self, bins: Bins, state_words: int) -> None:
        self._bins = bins
        self._state_words = state_words
        self._clear()

    def _clear(self) -> None:
        width = STATE + self._state_words
        self._slots = np.zeros(SLOTS_MIN, np.uint64)
        self._old = np.zeros(0, np.uint64)
        self._next = np.zeros(0, np.uint64)
        self._prefaulted = 0
        """How many of the next slots have been faulted in."""
        self._entries = MmapArray(PAD + ENTRIES_MIN * width)
        self._arena = MmapArray(ARENA_MIN)
        self._heads = np.full(self._bins.count, NO_ENTRY, np.int64)
        self._counts = np.zeros(self._bins.count, np.int64)
        self._blocks = np.full(EXACT_WORDS_MAX + 33, -1, np.int64)
        self._meta = np.zeros(META_WORDS, np.int64)
        self._meta[WIDTH], self._meta[SHIFT], self._meta[FREE] = width, self._bins.shift, NO_ENTRY
        self._meta[ARENA_TOP], self._meta[USED_MAX] = ARENA_FIRST, used_max(SLOTS_MIN)

    def __len__(self) -> int:
        return int(self._meta[COUNT])

    @property
    def state_words(self) -> int:
        """The number of words of a state."""
        return self._state_words

    @property
    def nbytes(self) -> int:
        """The memory in use, free entries and blocks included."""
        words = PAD + self._meta[TOP] * self._meta[WIDTH] + self._meta[ARENA_TOP]
        return int(8 * (words + len(self._slots) + len(self._old) + len(self._next)))

    @property
    def used_bytes(self) -> int:
        """The memory that its live keys need while it grows: two arrays of slots, and an eighth more of the rest."""
        slots = len(self._slots)
        while REHASH_QUARTERS_MAX * used_max(slots) < 4 * self._meta[COUNT]:
            slots *= 2
        entries = self._meta[COUNT] * self._meta[WIDTH]
        return int(16 * slots + 9 * (entries + self._meta[ARENA_TOP]))

    @property
    def entry_bytes(self) -> int:
        """The mean size of an entry, its key's bytes in the arena included; 0 if there is none."""
        count = int(self._meta[COUNT])
        return 8 * (count * int(self._meta[WIDTH]) + int(self._meta[ARENA_TOP])) // count if count else 0

    def view(self) -> TableView:
        """The arrays, as kernels take them. Valid until `grow`."""
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

    def grow(self) -> None:
        """Grow what the last insertion lacked: entries, arena or slots."""
        meta = self._meta
        width, needed = int(meta[WIDTH]), int(meta[NEEDED])
        if meta[FREE] == NO_ENTRY and PAD + (meta[TOP] + 1) * width > len(self._entries.words):
            self._entries.grow(PAD + (int(meta[TOP]) + 1) * width)
        if meta[ARENA_TOP] + needed > len(self._arena.words):
            self._arena.grow(int(meta[ARENA_TOP]) + needed)
        if meta[USED] >= meta[USED_MAX]:
            self.advance_rehash(len(self._old))
            many = 4 * meta[COUNT] > REHASH_QUARTERS_MAX * meta[USED_MAX]
            size = len(self._slots) * (2 if many else 1)
            self._old, self._slots = self._slots, self._next if len(self._next) == size else mapped_zeros(size)
            self._next, self._prefaulted = np.zeros(0, np.uint64), 0
            # Slots yet to be rehashed count as used.
            meta[USED], meta[REHASHED], meta[USED_MAX] = meta[COUNT], 0, used_max(len(self._slots))
            if len(self._old) <= REHASHED_AT_ONCE_MAX:
                self.advance_rehash(len(self._old))

    def advance_rehash(self, records: int) -> None:
        """After this many records: rehash some of the old slots, or fault some of the next ones in."""
        if len(self._old):
            if _rehash(self.view(), _REHASHED_PER_RECORD * records + ENTRIES_MIN):
                self._old = np.zeros(0, np.uint64)
        elif len(self._slots) >= PREFAULT_SLOTS_MIN // 2:
            self._prefault_next()

    def _prefault_next(self) -> None:
        """Fault the next slots in, in the proportion in which the last quarter of these is used."""
        most = int(self._meta[USED_MAX])
        since = 4 * int(self._meta[USED]) - 3 * most
        if since <= 0:
            return
        if not len(self._next):
            self._next = mapped_zeros(2 * len(self._slots))
        ready = min(len(self._next), len(self._next) * since // most)
        if ready > self._prefaulted:
            self._next[self._prefaulted : ready : _PAGE_WORDS] = 0
            self._prefaulted = ready

    def warm_up(self) -> None:
        """Compile what `advance_rehash` and `entries` call; inserting and extracting a key compiles the rest."""
        _rehash(self.view(), 0)
        _list_entries(self.view(), np.zeros(len(self), np.int64))

    def install(self, keys: Keys, states: Array) -> None:
        """Insert keys that are absent, with their states, a row of words each."""
        at = 0
        while (at := _install(self.view(), at, *_key_arrays(keys), states)) < len(keys):
            self.grow()
        self.advance_rehash(len(keys))

    def extract(self, bin_id: BinId, bytes_max: int) -> Iterator[tuple[Array, Array, Array, Array]]:
        """Remove a bin, in chunks: offsets and bytes of keys, which of them are null, and their states."""
        while self._heads[bin_id] != NO_ENTRY:
            count, size = _measure(self.view(), bin_id, bytes_max)
            offsets, data = np.zeros(count + 1, np.int32), np.empty(size, np.uint8)
            nulls, states = np.zeros(count, np.bool_), np.empty((count, self._state_words), np.uint64)
            _extract(self.view(), bin_id, offsets, data, nulls, states)
            yield offsets, data, nulls if nulls.any() else nulls[:0], states
        if not self._meta[COUNT]:
            self._clear()

    def entries(self) -> Array:
        """All entries, in the order of memory."""
        count = int(self._meta[COUNT])
        if count == self._meta[TOP]:
            return np.arange(count)
        found = np.empty(count, np.int64)
        _list_entries(self.view(), found)
        found.sort()
        return found

    def gather(self, entries: Array) -> tuple[Array, Array, Array]:
        """Offsets and bytes of the keys of entries, and which of them are null."""
        offsets, nulls = np.zeros(len(entries) + 1, np.int64), np.zeros(len(entries), np.bool_)
        _gather_sizes(self.view(), entries, offsets, nulls)
        data = empty(int(offsets[-1]) + WORD, np.uint8)
        _gather_bytes(self.view(), entries, offsets, data)
        return offsets, data[: offsets[-1]], nulls if nulls.any() else nulls[:0]

    def state_word(self, entries: Array, index: int) -> Array:
        """One word of the states of entries."""
        found: Array = self._entries.words[PAD + entries * self._meta[WIDTH] + STATE + index]
        return found

    def remove(self, entries: Array, hashes: Array) -> None:
        """Remove entries whose keys have these hashes."""
        _remove(self.view(), entries, hashes)

    def bins_in_use(self) -> Array:
        """A mask of the bins that have keys."""
        used: Array = self._counts > 0
        return used

    def keys_per_bin(self) -> dict[BinId, int]:
        """The bins that have keys, with their numbers of keys."""
        return {BinId(int(bin_id)): int(self._counts[bin_id]) for bin_id in np.flatnonzero(self._counts)}

    def close(self) -> None:
        """Release the memory."""
        self._clear()


def _key_arrays(keys: Keys) -> tuple[Array, Array, Array, Array]:
    return keys.hashes, keys.offsets, keys.data, keys.nulls


@kernel
def _rehash(view: TableView, slots_max: int) -> Any:
    """Rehash up to `slots_max` old slots; whether none is left."""
    meta, old, slots, mask = view.meta, view.old, address_of(view.slots), np.uint64(len(view.slots) - 1)
    end = min(len(old), meta[REHASHED] + slots_max)
    used = np.empty(64, np.uint64)
    for block in range(meta[REHASHED], end, len(used)):
        count = 0
        for at in range(block, min(block + len(used), end)):
            # Branch-free compaction: a branch would be mispredicted.
            used[count] = old[at]
            count += old[at] & LOW_MASK >= ENTRY_OFFSET
        for slot in used[:count]:
            store(slots + 8 * np.int64(empty_slot(slots, mask, slot >> HALF_BITS)), slot)
    meta[REHASHED] = end
    return end == len(old)


@kernel
def _install(
    view: TableView, first: int, hashes: Array, offsets: Array, data: Array, nulls: Array, states: Array
) -> int:
    """Insert from row `first` on; return the row that lacks room, or the number of rows."""
    width, where, begin = view.meta[WIDTH], meta_address(view), address_of(data)
    for row in range(first, len(hashes)):
        key = begin + np.int64(offsets[row])
        entry = insert(where, hashes[row], key, size_of(offsets, nulls, row), begin + len(data))
        if entry == NO_ENTRY:
            return row
        for word in range(states.shape[1]):
            view.entries[PAD + entry * width + STATE + word] = states[row, word]
    return len(hashes)


@kernel
def _list_entries(view: TableView, found: Array) -> None:
    width, at = view.meta[WIDTH], 0
    for bin_id in range(len(view.heads)):
        entry = view.heads[bin_id]
        while entry != NO_ENTRY:
            found[at] = entry
            at += 1
            entry = np.int64(view.entries[PAD + entry * width + LINKS] >> HALF_BITS)


@kernel
def _remove(view: TableView, entries: Array, hashes: Array) -> None:
    where = meta_address(view)
    for row in range(len(entries)):
        remove(where, entries[row], bin_of(view, hashes[row]))


@inlined
def _size_of(entry: int, arena: int) -> Any:
    """The size in bytes of the key of the entry at an address, or `NULL_SIZE`."""
    place = np.int64(load_u64(entry + 8 * KEY) & LOW_MASK)
    if place == NULL_KEY:
        return NULL_SIZE
    return place if place < ARENA_FIRST else load_i64(arena + 8 * place)


@kernel
def _measure(view: TableView, bin_id: int, bytes_max: int) -> Any:
    """How many keys of a bin, from the head of its list on, fit into a chunk, and how many bytes these have."""
    begin, arena, width = address_of(view.entries) + 8 * PAD, address_of(view.arena), view.meta[WIDTH]
    count, size = 0, np.int64(0)
    entry = view.heads[bin_id]
    total = np.int64(0)
    while entry != NO_ENTRY:
        at = begin + 8 * width * entry
        length = max(_size_of(at, arena), np.int64(0))
        total += length + 4 + 8 * (width - STATE)
        if count > 0 and total > bytes_max:
            break
        count += 1
        size += length
        entry = np.int64(load_u64(at + 8 * LINKS) >> HALF_BITS)
    return count, size


@kernel
def _extract(view: TableView, bin_id: int, offsets: Array, data: Array, nulls: Array, states: Array) -> None:
    begin, arena, width = address_of(view.entries) + 8 * PAD, address_of(view.arena), view.meta[WIDTH]
    where, end = meta_address(view), np.int64(0)
    for row in range(len(nulls)):
        entry = view.heads[bin_id]
        at = begin + 8 * width * entry
        size = _size_of(at, arena)
        nulls[row] = size == NULL_SIZE
        for byte in range(size):
            place = at + 8 * PREFIX if byte < 8 else arena + 8 * (np.int64(load_u64(at + 8 * KEY) & LOW_MASK) + 1)
            data[end + byte] = np.uint8(load_u8(place + byte))
        end += max(size, np.int64(0))
        offsets[row + 1] = end
        for word in range(states.shape[1]):
            states[row, word] = load_u64(at + 8 * (STATE + word))
        remove(where, entry, bin_id)


@kernel
def _gather_sizes(view: TableView, entries: Array, offsets: Array, nulls: Array) -> None:
    """The offsets of the keys; entries are in no order, and prefetched."""
    begin, arena, width = address_of(view.entries) + 8 * PAD, address_of(view.arena), view.meta[WIDTH]
    total, last = np.int64(0), len(entries) - 1
    for row in range(len(entries)):
        prefetch(begin + 8 * width * entries[min(row + _GATHER_PREFETCH_DISTANCE, last)])
        size = _size_of(begin + 8 * width * entries[row], arena)
        nulls[row] = size == NULL_SIZE
        total += max(size, np.int64(0))
        offsets[row + 1] = total


@kernel
def _gather_bytes(view: TableView, entries: Array, offsets: Array, data: Array) -> None:
    """Copy keys by whole words: the excess behind a key is overwritten by the next."""
    width, to = view.meta[WIDTH], address_of(data)
    for row in range(len(entries)):
        base = PAD + entries[row] * width
        size = offsets[row + 1] - offsets[row]
        if size > 0:
            store(to + offsets[row], view.entries[base + PREFIX])
        if size > 8:
            place = np.int64(view.entries[base + KEY] & LOW_MASK) + 1
            for word in range(1, (size + 7) // 8):
                store(to + offsets[row] + 8 * word, view.arena[place + word])
