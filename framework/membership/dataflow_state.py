"""What the protocols of joining and leaving ask of a worker's dataflows."""

from __future__ import annotations

from typing import Protocol

from framework.membership.members import WorkerId
from framework.membership.messages import ScopeState, SequenceNumbers
from framework.progress.order import Time
from framework.wire.messages import Progress

LentCapability = tuple[str, int, Time]
"""A capability for a joiner: the operator's path, its output, and the time."""


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
