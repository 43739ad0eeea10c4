"""Blocks of a segment: no two that are in use overlap, whatever the order in which they are freed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from framework.net.shm.allocator import BlockAllocator

END = 4096


@given(st.lists(st.tuples(st.integers(1, 1500), st.booleans(), st.integers(0, 10**6))))
def test_blocks_in_use_never_overlap(moves: list[tuple[int, bool, int]]) -> None:
    blocks, used = BlockAllocator(0, END), dict[int, int]()
    for size, frees, which in moves:
        if frees and used:
            start = list(used)[which % len(used)]
            blocks.free(start)
            del used[start]
        else:
            taken = blocks.allocate(size)
            if taken is not None:
                assert 0 <= taken <= END - size
                assert all(taken + size <= start or start + other <= taken for start, other in used.items())
                used[taken] = size
            else:
                assert not _has_room(used, size)
        blocks.validate()
        assert blocks.used == len(used)
    for start in used:
        blocks.free(start)
    assert blocks.allocate(END) == 0


def _has_room(used: dict[int, int], size: int) -> bool:
    """Whether `size` bytes, in whole lines, are free in one piece."""
    lines = [True] * (END // 64)
    for start, other in used.items():
        for line in range(start // 64, -(-(start + other) // 64)):
            lines[line] = False
    run = "".join("." if free else "x" for free in lines).split("x")
    return max(map(len, run)) >= -(-size // 64)
