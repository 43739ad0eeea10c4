"""Dataflows that do nothing by themselves: what a core finds there is what a test has put there."""

from __future__ import annotations

from dataclasses import dataclass, field

from framework.membership.dataflow_state import LentCapability
from framework.membership.members import WorkerId
from framework.membership.messages import ScopeState, SequenceNumbers
from framework.wire.messages import Progress


@dataclass(slots=True)
class StillDataflows:
    """A `DataflowState`: one dataflow, with one scope, whose input can be lent at epoch 5."""

    built: int = 1
    heard: list[tuple[WorkerId, Progress]] = field(default_factory=list)
    lent: tuple[LentCapability, ...] = ()
    starters: list[tuple[int, int]] = field(default_factory=list)
    """What `count` was called with."""
    quiet: bool = False

    def dataflows_built(self) -> int:
        return self.built

    def channels_built(self) -> int:
        return 2 * self.built

    def fingerprints(self) -> tuple[tuple[int, bytes], ...]:
        return ((0, b"f"),)

    def next_out(self) -> SequenceNumbers:
        return ((0, 3),)

    def lend(self) -> tuple[LentCapability, ...]:
        self.lent = (("0.1", 0, 5),)
        return self.lent

    def take_back(self, lent: tuple[LentCapability, ...]) -> None:
        assert lent == self.lent
        self.lent = ()

    def scope_states(self) -> list[ScopeState]:
        return [STATE]

    def unheard(self) -> list[tuple[WorkerId, Progress]]:
        return self.heard

    def count(self, first: int, sign: int) -> None:
        self.starters.append((first, sign))

    def quiescent(self) -> bool:
        return self.quiet


STATE = ScopeState(0, ((1, 5, 2),), (), ((0, 3), (1, 4)))
"""It has heard three batches of worker 0, and four of worker 1."""
