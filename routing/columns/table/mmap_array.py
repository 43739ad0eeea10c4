"""An array of words that grows without a copy: an anonymous mapping, resized by `mremap`.

The kernel moves a mapping by its page table, and allocates and clears a page when it is first touched. So the array
doubles in constant time, and the new half costs nothing until it is used.
"""

from __future__ import annotations

import contextlib
import mmap

import numpy as np

from routing.columns.memory import Array

MAPPED_WORDS_MIN = 2**17
"""Smaller arrays, below 1 MB, are copied instead."""

LARGE_PAGE_BYTES = 2 * 1024 * 1024
"""The size of a large page (transparent huge page), which takes one entry of the TLB."""

BEFORE_BYTES = 16
"""The offset of a large array within its mapping, as malloc leaves it: so entries are aligned to cache lines alike in
both (`layout.PAD`)."""


class MmapArray:
    """A growable array of words. Those that were never written are 0."""

    def __init__(self, words: int) -> None:
        self._mapped: mmap.mmap | None = None
        self.words = np.zeros(words, np.uint64)
        """Replaced by `grow`."""

    def grow(self, words_min: int) -> None:
        """Grow to twice the size, or to `words_min` if that is more."""
        words = max(words_min, 2 * len(self.words))
        if words < MAPPED_WORDS_MIN:
            self._copy_into(np.zeros(words, np.uint64))
            return
        size = -(-(8 * words + BEFORE_BYTES) // LARGE_PAGE_BYTES) * LARGE_PAGE_BYTES
        if self._mapped is None or not self._resize(self._mapped, size):
            self._mapped = _map(size)
            self._copy_into(_words_of(self._mapped))

    def _resize(self, mapped: mmap.mmap, size: int) -> bool:
        """Resize the mapping; whether that succeeded, since not every system has `mremap`."""
        self.words = np.zeros(0, np.uint64)  # a mapping with an exported buffer cannot be resized
        try:
            mapped.resize(size)
        except SystemError:
            return False
        finally:
            self.words = _words_of(mapped)
        return True

    def _copy_into(self, target: Array) -> None:
        target[: len(self.words)] = self.words
        self.words = target


def mapped_zeros(words: int) -> Array:
    """Words that are 0, in large pages if they fill one: that takes fewer page faults, and fewer entries of the TLB."""
    if 8 * words < LARGE_PAGE_BYTES:
        return np.zeros(words, np.uint64)
    return np.frombuffer(_map(8 * words), np.uint64)


def _map(size: int) -> mmap.mmap:
    mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(AttributeError, OSError):  # not on Linux, or large pages are disabled
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return mapped


def _words_of(mapped: mmap.mmap) -> Array:
    return np.frombuffer(mapped, np.uint64, offset=BEFORE_BYTES)
