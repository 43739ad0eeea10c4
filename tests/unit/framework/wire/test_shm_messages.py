"""What the ends of a link say about shared memory, in bytes."""

from __future__ import annotations

import pytest

from framework.errors import ProtocolError
from framework.wire import messages
from framework.wire.shm_messages import KINDS, BodyRef, Offer, OfferAnswer, Returned, ShmMessage, decode, encode

ALL: list[ShmMessage] = [
    Offer(17, 4, 4096, b"t" * 32),
    OfferAnswer(True),
    OfferAnswer(False),
    BodyRef(64, 100_000),
    Returned(0, ()),
    Returned(2**40, (64, 128)),
]


@pytest.mark.parametrize("message", ALL)
def test_a_message_arrives_as_it_was(message: ShmMessage) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize("message", ALL)
def test_its_kind_tells_it_apart(message: ShmMessage) -> None:
    assert encode(message)[0] in KINDS


@pytest.mark.parametrize("message", [messages.Data(1, 2, ["x"]), messages.Goodbye(), messages.Progress(0, 1, ())])
def test_messages_of_workers_are_of_other_kinds(message: messages.Message) -> None:
    assert messages.encode(message)[0] not in KINDS


@pytest.mark.parametrize(
    "octets", [b"\x01\x90", b"\x06", b"\x06\x90", b"\x07\x91\x05", b"\x08\x92\xff\x01", b"\x09\x92\x01\x02"]
)
def test_nonsense_is_refused(octets: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(octets)
