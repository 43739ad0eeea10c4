"""Which blocks of a piece of memory are in use: a first-fit allocator. Pure; a segment drives it."""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import pairwise

from framework.errors import ProtocolError

BLOCK_ALIGNMENT = 64
"""Blocks start at cache lines."""


class BlockAllocator:
    """First fit: the first block that is large enough is taken, which mostly is the one that was freed last, while
    caches still hold it."""

    __slots__ = ("_free", "_used")

    def __init__(self, start: int, end: int) -> None:
        first = _aligned(start)
        self._free = [(first, end - first)]
        """Where free blocks start, ascending, and their sizes. No two touch each other."""
        self._used: dict[int, int] = {}

    @property
    def used(self) -> int:
        """The number of blocks in use."""
        return len(self._used)

    def allocate(self, size: int) -> int | None:
        """Where a block of at least `size` bytes starts, or None if there is none."""
        size = _aligned(size)
        for index, (start, free) in enumerate(self._free):
            if free >= size:
                if free == size:
                    del self._free[index]
                else:
                    self._free[index] = start + size, free - size
                self._used[start] = size
                return start
        return None

    def free(self, start: int) -> None:
        """A block is free again. One that is not in use raises `ProtocolError`: it is the peer who names it."""
        size = self._used.pop(start, None)
        if size is None:
            raise ProtocolError(f"the block at {start} was returned, and is not in use")
        index = bisect_left(self._free, (start, 0))
        if index < len(self._free) and self._free[index][0] == start + size:
            size += self._free.pop(index)[1]
        if index and sum(self._free[index - 1]) == start:
            start, before = self._free.pop(index - 1)
            size += before
        insort(self._free, (start, size))

    def validate(self) -> None:
        """Check that free and used blocks cover everything once, and that neighbouring free blocks are merged."""
        pieces = sorted([(*piece, True) for piece in self._free] + [(*piece, False) for piece in self._used.items()])
        for (start, size, free), (following, _, free_too) in pairwise(pieces):
            assert start + size == following, (start, size, following)
            assert not (free and free_too), (start, following)


def _aligned(size: int) -> int:
    return -(-size // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT
