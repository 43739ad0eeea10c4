"""Links of a simulated cluster: FIFO queues of encoded frames that move when the simulation says so."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from framework.membership import WorkerId
from framework.wire.messages import Data, Message, decode, encode, encode_data


@dataclass(slots=True)
class Network:
    """All links: from whom to whom, and the frames under way."""

    links: dict[tuple[WorkerId, WorkerId], deque[bytes]] = field(default_factory=dict)
    inboxes: dict[WorkerId, list[tuple[WorkerId, Message]]] = field(default_factory=dict)
    congested_frames: int = 1_000_000
    """A worker is congested while more than this many frames wait on one of its links."""

    def busy(self) -> list[tuple[WorkerId, WorkerId]]:
        """The links with frames under way."""
        return [link for link, frames in self.links.items() if frames]

    def deliver(self, link: tuple[WorkerId, WorkerId]) -> None:
        """Let the oldest frame of a link arrive."""
        sender, receiver = link
        self.inboxes.setdefault(receiver, []).append((sender, decode(self.links[link].popleft())))


class SimulatedTransport:
    """One worker's end of the simulated links."""

    def __init__(self, worker: WorkerId, network: Network) -> None:
        self._worker = worker
        self._network = network
        self._unflushed: list[tuple[WorkerId, bytes]] = []

    def send(self, peer: WorkerId, message: Message, where: str = "this job") -> None:
        """Encode a message, as it would be on a real link."""
        bodies = encode_data(message, where) if isinstance(message, Data) else [encode(message)]
        self._unflushed.extend((peer, body) for body in bodies)

    def receive(self) -> list[tuple[WorkerId, Message]]:
        """Take what has arrived."""
        return self._network.inboxes.pop(self._worker, [])

    def flush(self) -> None:
        """Put what was sent on the links."""
        for peer, body in self._unflushed:
            self._network.links.setdefault((self._worker, peer), deque()).append(body)
        self._unflushed.clear()

    def congested(self) -> bool:
        """Whether a link of this worker holds too many frames."""
        limit = self._network.congested_frames
        return any(len(frames) > limit for (sender, _), frames in self._network.links.items() if sender == self._worker)

    def park(self, timeout_s: float | None) -> None:
        """A simulated worker never sleeps: the simulation decides who steps."""

    def wake(self) -> None:
        """See `park`."""

    def close(self) -> None:
        """Nothing to release."""
