"""What a link does with bodies that are too large to be copied through a socket, if both ends are on one machine.

The first large body goes through the socket, and with it an offer of memory. Once the other end has opened that, bodies
are placed there for as long as there is room. An end that cannot see the other's memory says so, and nothing changes.
"""

from __future__ import annotations

import socket

from framework.errors import ProtocolError
from framework.net.shm.segment import InboundSegment, OutboundSegment
from framework.wire.codec import Buffer
from framework.wire.messages import Body
from framework.wire.shm_messages import Answer, Offer, Placed, Returned, ShmMessage, encode

SHARED_BYTES_MIN = 64 * 1024
"""Smaller bodies go through the socket: to name them would take as long."""


class ShmChannel:
    """The memory of both ends of one link."""

    __slots__ = ("_accepted", "_borrowed", "_lent", "_offers", "_replies")

    def __init__(self, connection: socket.socket) -> None:
        self._offers = is_local(connection)
        """Whether memory is still to be offered."""
        self._lent: OutboundSegment | None = None
        self._accepted = False
        self._borrowed: InboundSegment | None = None
        self._replies: list[Body] = []

    @property
    def unread_bytes(self) -> int:
        """How much of what was placed the other end has not come to yet."""
        return self._lent.unread_bytes if self._lent is not None else 0

    @property
    def must_tell(self) -> bool:
        """Whether the other end waits for what `news` would say."""
        return bool(self._replies) or (self._borrowed is not None and self._borrowed.must_tell)

    def news(self) -> list[Body]:
        """What the other end has not heard of yet."""
        replies, self._replies = self._replies, []
        returned = self._borrowed.tell() if self._borrowed is not None else None
        return replies if returned is None else [*replies, [encode(returned)]]

    def bodies(self, body: Body, size: int) -> list[Body]:
        """What goes onto the socket for a body."""
        if size < SHARED_BYTES_MIN:
            return [body]
        if self._accepted and self._lent is not None:
            placed = self._lent.place(body, size)
            return [body] if placed is None else [[encode(placed)]]
        if self._offers:
            self._offers = False
            self._lent = OutboundSegment.open()
            if self._lent is not None:
                return [body, [encode(self._lent.offer)]]
        return [body]

    def room(self, size: int) -> memoryview | None:
        """Where a body's large pieces, of so many bytes in all, had best be written: see `OutboundSegment.room`."""
        if size < SHARED_BYTES_MIN or not self._accepted or self._lent is None:
            return None
        return self._lent.room(size)

    def hear(self, message: ShmMessage) -> Buffer | None:
        """What the other end says of memory; the body that it has placed, if it has."""
        match message:
            case Placed() if self._borrowed is not None:
                return self._borrowed.view(message)
            case Returned() if self._lent is not None:
                self._lent.take_back(message)
            case Offer() if self._borrowed is None:
                self._borrowed = InboundSegment.open(message)
                self._replies.append([encode(Answer(self._borrowed is not None))])
            case Answer(accepted) if self._lent is not None and not self._accepted:
                self._accepted = accepted
                if accepted:
                    self._lent.opened()
                else:
                    self.close()
            case _:
                raise ProtocolError(f"{type(message).__name__} at a time when it means nothing")
        return None

    def close(self) -> None:
        """Lend no more."""
        if self._lent is not None:
            self._lent.close()
            self._lent = None


def is_local(connection: socket.socket) -> bool:
    """Whether both ends have one address, and so are on one machine."""
    try:
        return bool(connection.getsockname()[0] == connection.getpeername()[0])
    except (OSError, IndexError):
        return False
