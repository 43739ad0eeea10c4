"""Links of a simulated cluster: FIFO queues of messages that move when the simulation says so.

A message is encoded when it is sent, and what travels is what its bytes decode to: the wire format is that of
production, and the simulation can look at what is under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from framework.membership.members import Address, WorkerId
from framework.wire.container import Reservation
from framework.wire.messages import Message, decode, encode_whole
from framework.worker.transport import Traffic

Link = tuple[WorkerId, WorkerId]
"""From whom to whom."""


@dataclass(slots=True)
class Network:
    """All links and their ends, and the time of day."""

    congested_frames: int = 1_000_000
    """A worker is congested while more than this many frames wait on one of its links."""
    now_s: float = 0.0
    links: dict[Link, deque[Message]] = field(default_factory=dict)
    ends: dict[WorkerId, SimulatedTransport] = field(default_factory=dict)

    def busy(self) -> list[Link]:
        """The links with frames under way."""
        return [link for link, frames in self.links.items() if frames]

    def deliver(self, link: Link) -> Message:
        """Let the oldest frame of a link arrive, and tell which one it was."""
        sender, receiver = link
        congested = self.ends[sender].congested()
        message = self.links[link].popleft()
        self.ends[receiver].arrived.append((sender, message))
        self.ends[receiver].wake()
        if congested and not self.ends[sender].congested():
            self.ends[sender].wake()
        return message

    def knows(self, one: WorkerId, other: WorkerId) -> bool:
        """Whether a link between two workers was ever used."""
        return (one, other) in self.links or (other, one) in self.links

    def under_way(self) -> Iterator[tuple[WorkerId, WorkerId, Message]]:
        """Sender, receiver and message of all that was sent and that no worker has taken yet, in order per link."""
        for receiver, end in self.ends.items():
            for sender, message in end.arrived:
                yield sender, receiver, message
        for (sender, receiver), frames in self.links.items():
            for message in frames:
                yield sender, receiver, message
        for sender, end in self.ends.items():
            for receiver, message in end.unflushed:
                yield sender, receiver, message


@dataclass(slots=True, eq=False)
class SimulatedReservation:
    """Memory for one container to one peer."""

    peer: WorkerId
    memory: memoryview
    sent: bool = False

    def hand_over(self, peer: WorkerId) -> None:
        """The container was sent. The memory is the peer's: a view of it that is kept here shows other bytes."""
        assert (peer, self.sent) == (self.peer, False), (peer, self)
        self.sent = True
        self.memory[:] = b"\xaa" * len(self.memory)


class SimulatedTransport:
    """One worker's end of the simulated links."""

    def __init__(self, worker: WorkerId, network: Network) -> None:
        self.arrived: list[tuple[WorkerId, Message]] = []
        self.unflushed: list[tuple[WorkerId, Message]] = []
        self.traffic = Traffic()
        self._worker = worker
        self._network = network
        self._asleep_until_s = -inf
        self._parted: set[WorkerId] = set()
        network.ends[worker] = self

    def reserve(self, peer: WorkerId, size: int) -> Reservation | None:
        """Memory of this process: what is written to it goes the way of a real link's."""
        return SimulatedReservation(peer, memoryview(bytearray(size)))

    def send(
        self, peer: WorkerId, message: Message, where: str = "this job", reservation: Reservation | None = None
    ) -> None:
        """Encode a message, as it would be on a real link."""
        if peer in self._parted:
            return
        self.unflushed.extend((peer, decode(body)) for body in encode_whole(message, where))
        if reservation is not None:
            assert isinstance(reservation, SimulatedReservation), reservation
            reservation.hand_over(peer)

    def receive(self) -> list[tuple[WorkerId, Message]]:
        """Take what has arrived."""
        arrived, self.arrived = self.arrived, []
        return arrived

    def flush(self) -> None:
        """Put what was sent on the links."""
        for peer, message in self.unflushed:
            self._network.links.setdefault((self._worker, peer), deque()).append(message)
        self.unflushed.clear()

    def congested(self) -> bool:
        """Whether a link of this worker holds too many frames."""
        limit, links = self._network.congested_frames, self._network.links
        return any(len(frames) > limit and link[0] == self._worker for link, frames in links.items())

    def park(self, timeout_s: float | None) -> None:
        """Return at once, but do not let the simulation step this worker before a real one would have woken up."""
        if not self.arrived:
            self._asleep_until_s = inf if timeout_s is None else self._network.now_s + timeout_s

    def wake(self) -> None:
        """End a `park`."""
        self._asleep_until_s = -inf

    def asleep_until_s(self) -> float:
        """When the worker wakes up by itself; in the past if it is awake."""
        return self._asleep_until_s

    def reach(self, peers: Mapping[WorkerId, Address]) -> None:
        """Links are there when they are used."""

    def part_with(self, peer: WorkerId) -> None:
        """What is under way arrives; what is sent from now on does not."""
        self.flush()
        self._parted.add(peer)

    def close(self) -> None:
        """Nothing to release."""
