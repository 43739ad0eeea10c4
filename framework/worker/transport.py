"""What a worker needs of the world: FIFO links to its peers, and somewhere to sleep.

Threads and TCP (`framework.net`) and the simulator (`framework.simulation`) implement it; the worker cannot tell them
apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from framework.membership.members import Address, WorkerId
from framework.wire.messages import Message


@dataclass(slots=True)
class Traffic:
    """What a worker has sent to workers of other processes, in bytes on the wire."""

    data_bytes: int = 0
    progress_bytes: int = 0


class Transport(Protocol):
    """The links of one worker. Only `wake` may be called from another thread."""

    traffic: Traffic

    def send(self, peer: WorkerId, message: Message, where: str = "this job") -> None:
        """Queue `message` for `peer`; it leaves with the next `flush`. Never blocks.

        A record that cannot be encoded raises `UnencodableRecord`, which says that `where` sent it.
        """

    def room(self, peer: WorkerId, size: int) -> memoryview | None:
        """Where a container of so many bytes had best be written if it is sent to `peer` next, and not looked at any
        more: its buffers one behind the other, as on the wire. None if no place is better than any other."""

    def receive(self) -> list[tuple[WorkerId, Message]]:
        """What has arrived since the last call, in order per peer, a bounded amount of it. Never blocks."""

    def flush(self) -> None:
        """Hand each peer all that is queued for it, in one write as far as the link takes it. Never blocks."""

    def congested(self) -> bool:
        """Whether so much waits for a slow peer that sources should pause."""

    def park(self, timeout_s: float | None) -> None:
        """Sleep until something arrives, a link takes more, `wake` was called, or the time is over."""

    def wake(self) -> None:
        """End the current or the next `park`."""

    def reach(self, peers: Mapping[WorkerId, Address]) -> None:
        """Establish links to peers that have none. For a joiner, which has nothing else to do: blocks, or raises."""

    def part_with(self, peer: WorkerId) -> None:
        """End the link to a peer, after what is queued for it. What it still says is not heard."""

    def close(self) -> None:
        """Release the links. What was not flushed is lost."""
