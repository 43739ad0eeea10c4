"""How a table of keys and states lies in memory.

*Slots* say where an entry is: the low 32 bits of the hash, and the number of the entry. They are probed one after the
other from where the hash points to. An *entry* is a few words in a row: the first 8 bytes of the key; 32 bits of the
hash again, with the size of a key that is not longer, or else its place; links to the entries of the same bin before
and after it; and the state. Longer keys are in the *arena*, in whole words, after their size. So a key is mostly found
with one look at a slot and one at an entry, which is half a cache line, and a bin's entries without looking at others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from routing.columns.compiled import inlined
from routing.columns.memory import Array

# The words of an entry.
PREFIX, KEY, LINKS, STATE = 0, 1, 2, 3

LINE_WORDS = 8
"""The words of a cache line."""

PAD = 6
"""Words before the first entry: the system gives out large arrays 16 bytes after the beginning of a cache line."""

# What a table knows of itself: first for good, then where its arrays are while a kernel runs, and how large.
WIDTH, SHIFT, COUNT, TOP, FREE, USED, USED_MAX, ARENA_TOP, SWEPT, NEEDED = range(10)
HEADS, COUNTS, BLOCKS, ENTRIES, ENTRIES_SIZE, ARENA, ARENA_SIZE, SLOTS, SLOTS_SIZE, OLD, OLD_SIZE, META = range(10, 22)

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
NONE = np.int64(0xFFFFFFFF)
"""No entry."""
NULL = np.int64(9)
"""As a size: that of a key that is null. Sizes beyond 8 are in the arena, so this is nobody else's."""
VACANT = np.uint64(10)
"""As a size: that of no key, so that an entry that is free is nobody's, to a loop that has found it before."""
ARENA_FIRST = 16
"""Places begin here, so that they are no sizes."""
NULL_SIZE = np.int64(-1)
"""What kernels are told is the size of a key that is null."""

EMPTY, GONE, FIRST = np.uint64(0), np.uint64(1), np.uint64(2)
"""What the low half of a slot says: nothing was ever here, something was, and so much more than an entry's number."""

EXACT_WORDS_MAX = 64
"""Keys of up to so many words take just these; longer ones the next power of two."""

NEAR_SLOTS_MAX = 2**14
"""So many slots are near the processor, where one more costs less than to look at two."""


def used_max(slots: int) -> int:
    """How many slots may have been used before there are more: few while they are near, else most."""
    return slots // 4 if slots <= NEAR_SLOTS_MAX else slots // 16 * 11


class TableView(NamedTuple):
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


def words_in(kind: pa.DataType) -> int:
    """How many words of a state a value of this type takes."""
    return kind.byte_width // 8 if pa.types.is_fixed_size_binary(kind) else 1


@inlined
def size_of(offsets, nulls, row):
    """How many bytes a key has, or `NULL_SIZE`."""
    if len(nulls) > 0 and nulls[row]:
        return NULL_SIZE
    return np.int64(offsets[row + 1]) - np.int64(offsets[row])
