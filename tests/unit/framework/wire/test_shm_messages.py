"""What the ends of a link say about memory, in bytes."""

from __future__ import annotations

import pytest

from framework.errors import ProtocolError
from framework.wire import messages
from framework.wire.shm_messages import Answer, BlockAllocator, Offer, Placed, Returned, ShmMessage, decode, encode

ALL: list[ShmMessage] = [
    Offer(17, 4, 4096, b"t" * 32),
    Answer(True),
    Answer(False),
    Placed(64, 100_000),
    Returned(0, ()),
    Returned(2**40, (64, 128)),
]


@pytest.mark.parametrize("message", ALL)
def test_a_message_arrives_as_it_was(message: ShmMessage) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize("message", [messages.Data(1, 2, ["x"]), messages.Goodbye(), messages.Progress(0, 1, ())])
def test_messages_of_workers_are_none(message: messages.Message) -> None:
    assert decode(messages.encode(message)) is None


def test_an_empty_body_is_none() -> None:
    assert decode(b"") is None


@pytest.mark.parametrize("octets", [b"\x06", b"\x06\x90", b"\x07\x91\x05", b"\x08\x92\xff\x01", b"\x09\x92\x01\x02"])
def test_nonsense_is_refused(octets: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(octets)


def test_the_first_block_that_is_large_enough_is_taken() -> None:
    blocks = BlockAllocator(32, 64 + 4 * 64)
    first, second, third = blocks.take(64), blocks.take(65), blocks.take(1)
    assert (first, second, third) == (64, 128, 256)
    assert blocks.take(1) is None
    blocks.give_back(128)
    assert blocks.take(129) is None
    assert blocks.take(1) == 128
    assert blocks.take(1) == 192


def test_neighbours_are_joined_again() -> None:
    blocks = BlockAllocator(0, 4 * 64)
    starts = [blocks.take(64) for _ in range(4)]
    for start in (64, 192, 128, 0):
        assert start in starts
        blocks.give_back(start)
        blocks.validate()
    assert blocks.used == 0
    assert blocks.take(4 * 64) == 0


def test_a_block_that_is_not_in_use_cannot_be_returned() -> None:
    blocks = BlockAllocator(0, 128)
    blocks.take(64)
    with pytest.raises(ProtocolError, match="the block at 64"):
        blocks.give_back(64)
    blocks.give_back(0)
    with pytest.raises(ProtocolError, match="the block at 0"):
        blocks.give_back(0)
