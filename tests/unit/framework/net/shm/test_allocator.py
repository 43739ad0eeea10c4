"""First fit, merging of neighbours, and returns of blocks that are not in use."""

from __future__ import annotations

import pytest

from framework.errors import ProtocolError
from framework.net.shm.allocator import BlockAllocator


def test_the_first_block_that_is_large_enough_is_taken() -> None:
    blocks = BlockAllocator(32, 64 + 4 * 64)
    first, second, third = blocks.allocate(64), blocks.allocate(65), blocks.allocate(1)
    assert (first, second, third) == (64, 128, 256)
    assert blocks.allocate(1) is None
    blocks.free(128)
    assert blocks.allocate(129) is None
    assert blocks.allocate(1) == 128
    assert blocks.allocate(1) == 192


def test_neighbours_are_merged_again() -> None:
    blocks = BlockAllocator(0, 4 * 64)
    starts = [blocks.allocate(64) for _ in range(4)]
    for start in (64, 192, 128, 0):
        assert start in starts
        blocks.free(start)
        blocks.validate()
    assert blocks.used == 0
    assert blocks.allocate(4 * 64) == 0


def test_a_block_that_is_not_in_use_cannot_be_returned() -> None:
    blocks = BlockAllocator(0, 128)
    blocks.allocate(64)
    with pytest.raises(ProtocolError, match="the block at 64"):
        blocks.free(64)
    blocks.free(0)
    with pytest.raises(ProtocolError, match="the block at 0"):
        blocks.free(0)
