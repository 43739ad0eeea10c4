"""What bins may be moved for, and how that is doing: values that a controller takes, and shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from framework.membership.members import WorkerId
from routing.bins import BinId
from routing.migration.pacing import StepBudget, paced
from routing.migration.plan import Plan, Step
from routing.migration.strategies import Reassignment, Strategy, all_at_once, batched, fluid, optimized

STRATEGIES: Mapping[str, Strategy | None] = {
    "paced": None,
    "optimized": optimized,
    "fluid": fluid,
    "batched": partial(batched, bins_max=16),
    "all-at-once": all_at_once,
}
"""How moves are cut into steps: by the time that steps take, or as a plan says."""


@dataclass(frozen=True, slots=True)
class Assign:
    """Give bins of a group of operators to workers."""

    group: str
    owners: Mapping[BinId, WorkerId]


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Spread all bins over the workers by what they weigh."""


@dataclass(frozen=True, slots=True)
class Resize:
    """Let workers join that are about to, with their share of bins, and empty others, so that they can leave."""

    joining: tuple[WorkerId, ...] = ()
    leaving: tuple[WorkerId, ...] = ()


Goal = Assign | Rebalance | Resize


@dataclass(frozen=True, slots=True)
class Pace:
    """How the bins of a goal move."""

    strategy: str = "paced"
    gap_s: float = 0.0
    """Between steps."""


def steps_of(change: Reassignment, pace: Pace, budget: StepBudget) -> Iterator[Step]:
    """The steps that a change is cut into; those that are paced, by what the budget is when they are asked for."""
    strategy = STRATEGIES[pace.strategy]
    return paced(change.transfers(), budget) if strategy is None else iter(strategy(change).steps)


def plan_of(change: Reassignment, pace: Pace) -> Plan:
    """The same as a plan, to be looked at: paced steps become larger or smaller as they turn out."""
    return Plan(tuple(steps_of(change, pace, StepBudget())))


GoalStatus = Literal["under way", "reached", "cancelled", "superseded", "failed"]


@dataclass(frozen=True, slots=True)
class GoalState:
    """How a goal is doing, or how it ended."""

    number: int
    """Goals of a job are counted from 0."""
    text: str
    status: GoalStatus
    reason: str
    """What superseded it, or made it fail; or what it waits for."""
    duration_s: float
    stall_s_max: float
    """The longest that outputs stood still while it was under way."""
    bins_moved: int
    bins: int
    """How many bins move in all, as far as is known."""
    bytes_moved: int
    state_bytes: int

    @property
    def finished(self) -> bool:
        """Whether nothing more is done for it."""
        return self.status != "under way"
