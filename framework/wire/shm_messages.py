"""What the two ends of a link say about the memory that they share.

Between processes of one machine a large body need not pass through a socket. The sender has a segment of memory that
both map; it writes the body into a free block there, and a frame in the body's place refers to the block. So frames
keep their order, and what there is no free block for is sent as it is. The receiver reads the body in place, and
returns the block once nothing refers to it.

These messages are between the two ends of a link; no worker hears of them. Each end has a segment of its own, and which
blocks of it are free is its allocator's to know (`framework.net.shm.allocator`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from framework.errors import ProtocolError
from framework.wire import checks
from framework.wire.body import MessageKind, compose
from framework.wire.codec import Buffer, decode_value

TOKEN_BYTES = 32
"""What a segment begins with, so that the other end knows that it has opened the right one."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The sender has a segment: what this descriptor of this process of its machine is open for."""

    process: int
    descriptor: int
    size: int
    token: bytes


@dataclass(frozen=True, slots=True)
class OfferAnswer:
    """Whether the sender of this could map what it was offered."""

    accepted: bool


@dataclass(frozen=True, slots=True)
class BodyRef:
    """In place of a body: where it is in the sender's segment."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Returned:
    """How many bytes of bodies in the receiver's segment the sender of this has read in all, and the starts of those
    that it has released since the last report."""

    read_bytes: int
    starts: tuple[int, ...]


ShmMessage: TypeAlias = Offer | OfferAnswer | BodyRef | Returned

KINDS = frozenset({MessageKind.SHM_OFFER, MessageKind.SHM_ANSWER, MessageKind.SHM_BODY, MessageKind.SHM_RETURNED})
"""What the body of a frame that holds one of these begins with."""


def encode(message: ShmMessage) -> bytes:
    """The body of one frame."""
    match message:
        case Offer(process, descriptor, size, token):
            return compose(MessageKind.SHM_OFFER, process, descriptor, size, token)
        case OfferAnswer(accepted):
            return compose(MessageKind.SHM_ANSWER, accepted)
        case BodyRef(start, size):
            return compose(MessageKind.SHM_BODY, start, size)
        case Returned(read_bytes, starts):
            return compose(MessageKind.SHM_RETURNED, read_bytes, starts)


def decode(body: Buffer) -> ShmMessage:
    """The message in the body of a frame of one of the `KINDS`, or `ProtocolError`."""
    kind = body[0]
    match kind, decode_value(body[1:]):
        case MessageKind.SHM_OFFER, [process, descriptor, size, bytes(token)]:
            return Offer(checks.natural(process), checks.natural(descriptor), checks.natural(size), token)
        case MessageKind.SHM_ANSWER, [bool(accepted)]:
            return OfferAnswer(accepted)
        case MessageKind.SHM_BODY, [start, size]:
            return BodyRef(checks.natural(start), checks.natural(size))
        case MessageKind.SHM_RETURNED, [read_bytes, list(starts)]:
            return Returned(checks.natural(read_bytes), tuple(map(checks.natural, starts)))
    raise ProtocolError(f"no message of kind {kind} has such fields")
