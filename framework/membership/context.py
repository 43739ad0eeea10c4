"""What the protocols of joining and leaving need of their worker: its links and members, and its dataflows."""

from __future__ import annotations

from typing import Protocol

from framework.membership.members import Members, WorkerId
from framework.membership.messages import ScopeState, SequenceNumbers
from framework.progress.order import Time
from framework.wire.messages import Message, Progress

LentCapability = tuple[str, int, Time]
"""A capability for a joiner: the operator's path, its output, and the time."""


class MembershipContext(Protocol):
    """A worker, as its part in a rescaling sees it."""

    @property
    def stock(self) -> DataflowState:
        """Its dataflows."""

    def send(self, peer: WorkerId, message: Message) -> None:
        """Send a message to a peer."""

    def tell(self, what: str) -> None:
        """Say what is going on, for the log."""

    def bound(self, joiner: WorkerId) -> None:
        """Have `Member.give_up` called if a join takes too long."""

    def joined_by(self, joiner: WorkerId) -> None:
        """Every member's records may go to `joiner` from now on."""

    def wished(self, worker: WorkerId) -> None:
        """`worker` wants to leave, and something is in its way."""

    def members_changed(self, members: Members) -> None:
        """Route records among these from now on."""

    def audience_changed(self, audience: tuple[WorkerId, ...]) -> None:
        """Tell these of progress from now on."""

    def part_with(self, peer: WorkerId) -> None:
        """Nothing more comes from, or goes to, a peer."""


class DataflowState(Protocol):
    """The dataflows of a worker: what it can lend and hand over, and must be rid of before it leaves."""

    def dataflows_built(self) -> int:
        """How many dataflows were ever built here."""

    def channels_built(self) -> int:
        """How many channels these have, or had."""

    def fingerprints(self) -> tuple[tuple[int, bytes], ...]:
        """Those of the dataflows that were built here, by number."""

    def next_out(self) -> SequenceNumbers:
        """By channel, the number of the next batch of progress that this worker sends."""

    def lend(self) -> tuple[LentCapability, ...]:
        """Clone, for a joiner, what this worker's inputs hold; the next batches of the scopes concerned say so."""

    def take_back(self, lent: tuple[LentCapability, ...]) -> None:
        """Drop, in place of a joiner, what was lent to it."""

    def scope_states(self) -> list[ScopeState]:
        """What this worker has heard of each running scope."""

    def unheard(self) -> list[tuple[WorkerId, Progress]]:
        """Batches that have arrived and are not part of `scope_states`."""

    def count(self, first: int, sign: int) -> None:
        """In dataflows from `first` on that are built here, one worker more (1) or fewer (-1) starts with the
        capabilities that everybody starts with."""

    def quiescent(self) -> bool:
        """Whether no record and no capability is left here, and all that was done has been told."""
