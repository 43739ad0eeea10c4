"""What a worker needs of the world: FIFO links to its peers, and somewhere to sleep.

Threads and TCP (`framework.net`) and the simulator (`framework.simulation`) implement it; the worker cannot tell them
apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from framework.membership.members import Address, WorkerId
from framework.wire.container import Reservation
from framework.wire.messages import Message


@dataclass(slots=True)
class Traffic:
    """What a worker has sent to workers of other processes, in bytes on the wire."""

    data_bytes: int = 0
    progress_bytes: int = 0


class Transport(Protocol):
    """The links of one worker. Only `wake` may be called from another thread."""

    traffic: Traffic

    def reserve(self, peer: WorkerId, size: int) -> Reservation | None:
        """Memory that `peer` sees as well, for a container whose buffers take `size` bytes; None if there is none.

        The container is written to it, and the reservation handed over with `send`.
        """

    def send(
        self, peer: WorkerId, message: Message, where: str = "this job", reservation: Reservation | None = None
    ) -> None:
        """Queue `message` for `peer`; it leaves with the next `flush`. Never blocks.

        What its container has in the reserved memory is not copied. A record that cannot be encoded raises
        `UnencodableRecord`, which says that `where` sent it.
        """

    def receive(self) -> list[tuple[WorkerId, Message]]:
        """What has arrived since the last call, in order per peer, a bounded amount of it. Never blocks."""

    def flush(self) -> None:
        """Hand each peer all that is queued for it, in one write as far as the link takes it. Never blocks."""

    def congested(self) -> bool:
        """Whether sources should pause: the queue for a slow peer is full."""

    def park(self, timeout_s: float | None) -> None:
        """Sleep until something arrives, a link takes more, `wake` was called, or the time is over."""

    def wake(self) -> None:
        """End the current or the next `park`."""

    def reach(self, peers: Mapping[WorkerId, Address]) -> None:
        """Establish links to peers that have none. For a joiner, which has nothing else to do: blocks, or raises."""

    def part_with(self, peer: WorkerId) -> None:
        """End the link to a peer, after what is queued for it. What it still sends is discarded."""

    def close(self) -> None:
        """Release the links. What was not flushed is lost."""
