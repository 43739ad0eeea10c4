"""What a running job answers to those who call its admin endpoint: `docs/reference/command.md` has the requests.

Each is also what the command line renders, and what `--json` prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from framework.membership.members import WorkerId
from operators.admin.json_codec import from_json
from operators.control.errors import ChangeFailed
from operators.control.worker_messages import BinTable, BlockerState, Frontier, PlanState
from routing.migration.plan import Plan


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is."""

    workers: int
    running_s: float
    frontier: Frontier
    plan: PlanState | None
    silent: tuple[WorkerId, ...]
    """Those that do not answer."""


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker, as `hailer status` shows it."""

    worker: WorkerId
    process: int
    pid: int
    state: Literal["joining", "member", "leaving"]
    frontier: Frontier | None
    """None if it did not answer."""
    congested: bool
    bins: int
    keys: int
    silent: str | None
    """Why it did not answer."""


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """An operator on all workers."""

    path: str
    name: str
    frontier: Frontier
    records_per_s: float
    busy: float
    """The part of the workers' time that it takes, on average."""


@dataclass(frozen=True, slots=True)
class ScaleState:
    """How a change of processes is doing, or how it ended."""

    goal: str
    finished: bool
    failure: str | None
    log: tuple[str, ...]
    waits_for: str
    joined: tuple[int, ...]
    left: tuple[int, ...]
    bins_moved: int
    state_bytes: int
    stall_s_max: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Workers, operators, bins, and what is under way."""

    job: str
    pid: int
    running_s: float
    frontier: Frontier
    workers: tuple[WorkerRow, ...]
    operators: tuple[OperatorRow, ...]
    bins: tuple[BinTable, ...]
    plan: PlanState | None
    scale: ScaleState | None


@dataclass(frozen=True, slots=True)
class WorkersBlocker(BlockerState):
    """What a worker has that holds a frontier back."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Explanation:
    """What holds the frontier of an operator back."""

    path: str
    name: str
    frontier: Frontier
    held: tuple[WorkersBlocker, ...]
    under_way: tuple[BlockerState, ...]
    """What workers have heard of that no worker holds any more."""
    silent: dict[WorkerId, str]


@dataclass(frozen=True, slots=True)
class PlanStatus(PlanState):
    """How a plan is doing, with what has left workers since it began."""

    state_bytes: int


@dataclass(frozen=True, slots=True)
class ProposedPlan:
    """A plan that was made, and its number if it was begun. In JSON its steps and its number of bins."""

    plan: Plan
    number: int | None

    def to_dict(self) -> dict[str, Any]:
        begun = {} if self.number is None else {"plan": self.number}
        return {**self.plan.to_dict(), "bins": self.plan.bins, **begun}

    @staticmethod
    def from_dict(document: Mapping[str, Any]) -> ProposedPlan:
        plan = Plan.from_dict({"steps": document.get("steps")})
        return ProposedPlan(plan, from_json(int | None, document.get("plan")))


@dataclass(frozen=True, slots=True)
class ScaleAnswer:
    """Which processes join and leave, and whether that has begun."""

    joins: int
    leaves: tuple[int, ...]
    begun: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a change of a running job came to: bins that have moved, and what was felt of it."""

    bins_moved: int
    state_bytes: int
    duration_s: float
    stall_s_max: float
    """The longest that outputs stood still meanwhile."""

    @staticmethod
    def of(what: str, state: PlanStatus | ScaleState) -> Outcome:
        """That of a plan or a scaling that has ended; `ChangeFailed` if it did not come about."""
        if state.failure is not None:
            raise ChangeFailed(f"the {what} failed: {state.failure}")
        return Outcome(state.bins_moved, state.state_bytes, state.duration_s, state.stall_s_max)


NOTHING = Outcome(0, 0, 0.0, 0.0)
"""All was as it should be."""
