"""Records for a joiner that is enlisted and may still not join: held back where they are sent.

So a joiner that dies has had none of them. A container is counted before it is routed, and once, wherever it ends up:
it is sent when the joiner has joined, or routed again, among the members that there are without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.errors import PeerLost
from framework.membership.members import WorkerId
from framework.progress.order import Time
from framework.wire.container import Container, weigh

if TYPE_CHECKING:
    from framework.worker.channel import WorkerChannel

RECORDS_MAX = 65_536
"""Sources pause while more than this many are held."""


class HeldRecords:
    """What one worker holds back."""

    def __init__(self) -> None:
        self.joiner: WorkerId | None = None
        """For whom, if anybody."""
        self._held: list[tuple[WorkerChannel, Time, Container]] = []
        self._records = 0

    @property
    def full(self) -> bool:
        """Whether sources should pause: more than `RECORDS_MAX` are held."""
        return self._records > RECORDS_MAX

    def hold(self, joiner: WorkerId) -> None:
        """Hold back what is for `joiner` from now on."""
        assert self.joiner is None, (self.joiner, joiner)
        self.joiner = joiner

    def put(self, channel: WorkerChannel, time: Time, container: Container) -> None:
        """Hold a container back."""
        self._held.append((channel, time, container))
        self._records += weigh(container)

    def send(self) -> None:
        """The joiner has joined: send it what is its."""
        joiner, self.joiner = self.joiner, None
        assert joiner is not None
        for channel, time, container in self._take():
            channel.send(joiner, time, container)

    def reroute(self) -> None:
        """The joiner does not join, and is a member no more: route what was for it among those that are."""
        for channel, time, container in self._take():
            channel.reroute(time, container)
        if self._held:
            channel, *_ = self._held[0]
            raise PeerLost(f"{channel.sender} sent records to worker {self.joiner} by its number, and it did not join")
        self.joiner = None

    def all(self) -> list[tuple[int, Time, Container]]:
        """All that is held back, with the numbers of its channels."""
        return [(channel.number, time, container) for channel, time, container in self._held]

    def _take(self) -> list[tuple[WorkerChannel, Time, Container]]:
        held, self._held, self._records = self._held, [], 0
        return held
