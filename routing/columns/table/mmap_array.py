"""Words that grow without being moved or cleared at once, either of which would hold the stream up.

The operating system gives memory out when it is first touched, and moves it by naming it anew. So there may be twice as
many words as there were, of which the new ones cost nothing until they are used.
"""

from __future__ import annotations

import contextlib
import mmap

import numpy as np

from routing.columns.memory import Array

MAPPED_WORDS_MIN = 2**17
"""Fewer are copied instead: a megabyte, which takes no time that anybody would notice."""

LARGE_PAGE_BYTES = 2 * 1024 * 1024
"""Memory of so much is at an address that is a multiple of it, and takes one entry in the processor's list of pages."""

BEFORE_BYTES = 16
"""The system's allocator leaves so much before large arrays; so do we, and entries lie on cache lines in one way."""


class MmapArray:
    """Words, of which there can be more at any time. Those that were never written are 0."""

    def __init__(self, words: int) -> None:
        self._mapped: mmap.mmap | None = None
        self.words = np.zeros(words, np.uint64)
        """As many as there is room for. Who asks for more must ask for these again."""

    def grow(self, words_min: int) -> None:
        """Have room for twice as many, or for so many."""
        words = max(words_min, 2 * len(self.words))
        if words < MAPPED_WORDS_MIN:
            self._copy_to(np.zeros(words, np.uint64))
            return
        size = -(-(8 * words + BEFORE_BYTES) // LARGE_PAGE_BYTES) * LARGE_PAGE_BYTES
        if self._mapped is None or not self._moved(self._mapped, size):
            self._mapped = _mapped(size)
            self._copy_to(_words_of(self._mapped))

    def _moved(self, mapped: mmap.mmap, size: int) -> bool:
        """Name the memory anew, of another size; not every system can."""
        self.words = np.zeros(0, np.uint64)  # nobody may look at it meanwhile
        try:
            mapped.resize(size)
        except SystemError:
            return False
        finally:
            self.words = _words_of(mapped)
        return True

    def _copy_to(self, room: Array) -> None:
        room[: len(self.words)] = self.words
        self.words = room


def cleared(words: int) -> Array:
    """Words that are 0, in large pages if they fill one: of those there are fewer to be given out, and to be known."""
    if 8 * words < LARGE_PAGE_BYTES:
        return np.zeros(words, np.uint64)
    return np.frombuffer(_mapped(8 * words), np.uint64)


def _mapped(size: int) -> mmap.mmap:
    mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(AttributeError, OSError):  # other systems have no large pages, or will not be asked
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return mapped


def _words_of(mapped: mmap.mmap) -> Array:
    return np.frombuffer(mapped, np.uint64, offset=BEFORE_BYTES)
