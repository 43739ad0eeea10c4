"""The memory layout of the hash table of keys and states: open addressing with linear probing, entries beside it.

- A *slot* is one word: in its upper half a tag, the low 32 bits of the hash; in its lower half the entry's number plus
  `ENTRY_OFFSET`, or `EMPTY` or `TOMBSTONE`. Probing starts at `hash & mask`. The tag is enough to rehash a slot without
  its entry.
- An *entry* is 3 words and the state: the first 8 bytes of the key; the tag again, with the size of an inline key (of
  up to 8 bytes), a code below `ARENA_FIRST`, or the key's offset in the arena; links to the next and the previous
  entry of the bin, or to the next free entry. Entries never move.
- The *arena* holds longer keys, each padded to whole words, after its size. Freed blocks are kept by size class.

So a lookup mostly costs two cache misses, a slot and an entry, which is half a cache line with one word of state; and a
bin is enumerated by its list, without a scan.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from routing.columns.compiled import inlined
from routing.columns.memory import Array

# The words of an entry.
PREFIX, KEY, LINKS, STATE = 0, 1, 2, 3

CACHE_LINE_WORDS = 8

PAD = 6
"""Words before the first entry, which align it to a cache line: malloc puts large arrays 16 bytes behind a boundary."""

# The words of `meta`: the table's own, then the addresses and sizes of its arrays while a kernel runs.
# TOP and ARENA_TOP are high-water marks, FREE the head of the free list of entries, USED counts slots with tombstones,
# REHASHED is the number of old slots that are done, NEEDED the arena words of the key last inserted or refused.
WIDTH, SHIFT, COUNT, TOP, FREE, USED, USED_MAX, ARENA_TOP, REHASHED, NEEDED = range(10)
HEADS, COUNTS, BLOCKS, ENTRIES, ENTRIES_SIZE, ARENA, ARENA_SIZE, SLOTS, SLOTS_SIZE, OLD, OLD_SIZE, META_WORDS = range(
    10, 22
)

LOW_MASK = np.uint64(0xFFFFFFFF)
HALF_BITS = np.uint64(32)
NO_ENTRY = np.int64(0xFFFFFFFF)
"""A null link, and the answer of an insertion that lacks room."""
NULL_KEY = np.int64(9)
"""The code, instead of an inline size, of a key that is null."""
FREE_ENTRY = np.uint64(10)
"""The code of a free entry: it matches no key, so that a candidate prefetched before its removal is rejected."""
ARENA_FIRST = 16
"""The first offset in the arena, above every inline size and code."""
NULL_SIZE = np.int64(-1)
"""The size of a null key, as an argument of kernels."""

EMPTY, TOMBSTONE, ENTRY_OFFSET = np.uint64(0), np.uint64(1), np.uint64(2)
"""The lower half of a slot: never used, left by a removed entry, or `ENTRY_OFFSET` plus an entry's number."""

EXACT_WORDS_MAX = 64
"""Arena blocks of up to this size have a size class each; larger ones are rounded up to a power of two."""

L2_SLOTS_MAX = 2**14
"""Tables of up to this many slots fit the L2 cache; there, a sparser table beats a second probe."""


def used_max(slots: int) -> int:
    """How many slots may be used, tombstones included, before a rehash: the load factor is 1/4 in L2, 11/16 beyond."""
    return slots // 4 if slots <= L2_SLOTS_MAX else slots // 16 * 11


class TableView(NamedTuple):
    """The arrays of a table, as kernels take them: valid until the table grows."""

    slots: Array
    old: Array
    """The slots before the last doubling, while they are rehashed incrementally; else empty."""
    entries: Array
    arena: Array
    heads: Array
    """The first entry of each bin's list."""
    counts: Array
    """The number of keys of each bin."""
    blocks: Array
    """The head of the arena's free list, by size class."""
    meta: Array


def words_in(kind: pa.DataType) -> int:
    """The number of words that a value of this type takes in a state."""
    return kind.byte_width // 8 if pa.types.is_fixed_size_binary(kind) else 1


@inlined
def size_of(offsets: Array, nulls: Array, row: int) -> Any:
    """The size of a key in bytes, or `NULL_SIZE`."""
    if len(nulls) > 0 and nulls[row]:
        return NULL_SIZE
    return np.int64(offsets[row + 1]) - np.int64(offsets[row])
