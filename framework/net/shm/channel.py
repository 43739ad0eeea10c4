"""What a link does with bodies that are too large to be copied through a socket, if both ends are on one machine.

The first large body goes through the socket, and with it an offer of memory. Once the other end has mapped that, bodies
are written there for as long as there is a free block. An end that cannot map the other's memory says so, and nothing
changes.
"""

from __future__ import annotations

from framework.errors import ProtocolError
from framework.net.shm.segment import InboundSegment, OutboundSegment
from framework.wire.body import Body
from framework.wire.codec import Buffer
from framework.wire.container import Reservation
from framework.wire.shm_messages import BodyRef, Offer, OfferAnswer, Returned, ShmMessage, encode

SHARED_BYTES_MIN = 64 * 1024
"""Smaller bodies go through the socket: a reference to them would cost as much."""


class ShmChannel:
    """The shared memory of one link, seen from one end: a segment for each direction."""

    __slots__ = ("_accepted", "_inbound", "_offers", "_outbound", "_replies")

    def __init__(self, *, offers: bool) -> None:
        self._offers = offers
        """Whether memory is still to be offered."""
        self._outbound: OutboundSegment | None = None
        self._accepted = False
        self._inbound: InboundSegment | None = None
        self._replies: list[Body] = []

    @property
    def unread_bytes(self) -> int:
        """How many bytes in the outbound segment the other end has not read yet."""
        return self._outbound.unread_bytes if self._outbound is not None else 0

    @property
    def reports_due(self) -> bool:
        """Whether the other end waits for what `reports` returns."""
        return bool(self._replies) or (self._inbound is not None and self._inbound.report_due)

    def reports(self) -> list[Body]:
        """What the other end has not been told yet."""
        replies, self._replies = self._replies, []
        returned = self._inbound.report() if self._inbound is not None else None
        return replies if returned is None else [*replies, [encode(returned)]]

    def reserve(self, size: int) -> Reservation | None:
        """A free block for a body whose large pieces take `size` bytes: see `OutboundSegment.reserve`."""
        if size < SHARED_BYTES_MIN or not self._accepted or self._outbound is None:
            return None
        return self._outbound.reserve(size)

    def bodies(self, body: Body, size: int, reservation: Reservation | None = None) -> list[Body]:
        """What goes onto the socket for a body of at least `SHARED_BYTES_MIN`, which may have been written to a
        reservation."""
        if self._accepted and self._outbound is not None:
            reference = self._outbound.write(body, size, reservation)
            return [body] if reference is None else [[encode(reference)]]
        if self._offers:
            self._offers = False
            self._outbound = OutboundSegment.open()
            if self._outbound is not None:
                return [body, [encode(self._outbound.offer)]]
        return [body]

    def receive(self, message: ShmMessage) -> Buffer | None:
        """Handle what the other end says of memory; the body that it refers to, if it does."""
        match message:
            case BodyRef() if self._inbound is not None:
                return self._inbound.view(message)
            case Returned() if self._outbound is not None:
                self._outbound.take_back(message)
            case Offer() if self._inbound is None:
                self._inbound = InboundSegment.open(message)
                self._replies.append([encode(OfferAnswer(self._inbound is not None))])
            case OfferAnswer(accepted) if self._outbound is not None and not self._accepted:
                self._accepted = accepted
                if accepted:
                    self._outbound.close_descriptor()
                else:
                    self.close()
            case _:
                raise ProtocolError(f"{type(message).__name__} at a time when it means nothing")
        return None

    def close(self) -> None:
        """Release the outbound segment. Bodies go through the socket from now on."""
        if self._outbound is not None:
            self._outbound.close()
            self._outbound = None
