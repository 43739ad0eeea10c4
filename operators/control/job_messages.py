"""What a running job answers to those who call its admin endpoint: `docs/reference/command.md` has the requests.

Each is also what the command line renders, and what `--json` prints.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from framework.membership.members import WorkerId
from operators.control.errors import ChangeFailed
from operators.control.worker_messages import BinTable, BlockerState, Frontier, LateRecords
from routing.migration.goals import GoalState
from routing.migration.plan import Plan


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is."""

    workers: int
    running_s: float
    frontier: Frontier
    goal: GoalState | None
    """The last that bins were moved for."""
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
    unstepped_s: float
    """How long ago its last step was, by its heartbeats; 0 if it waits for something to do."""
    stack: tuple[str, ...]
    """Where it is, if it was in the same step a second before: a line for each frame, and one of its source."""


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
class ChangeState:
    """How a change of bins or processes is doing, or how it ended."""

    text: str
    """What was asked for, as `scale to 3`."""
    finished: bool
    failure: str | None
    cancelled: bool
    waits_for: str
    bins_moved: int
    bins: int
    """How many move in all, as far as is known."""
    state_bytes: int
    """How much state has come to workers since it began."""
    stall_s_max: float
    """The longest that outputs stood still meanwhile."""
    duration_s: float
    joined: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    log: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    """More about each line of the log, for who wants it."""


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
    late: tuple[LateRecords, ...]
    held: str | None
    """Why a job that is served takes nothing in, if it does not."""
    moving: ChangeState | None
    """The last change of bins."""
    scale: ChangeState | None
    """The last change of processes."""


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
class Answer:
    """What an action comes to: which processes join and leave, the plans by group if it is only to be shown."""

    number: int | None = None
    """Of the change that has begun, if it has."""
    joins: int = 0
    leaves: tuple[int, ...] = ()
    unmoved: tuple[str, ...] = ()
    """Operators that keep their keys where they are, whoever joins."""
    plans: dict[str, Plan] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a change of a running job came to: bins that have moved, and what was felt of it."""

    bins_moved: int
    state_bytes: int
    duration_s: float
    stall_s_max: float
    """The longest that outputs stood still meanwhile."""

    @staticmethod
    def of(state: ChangeState) -> Outcome:
        """That of a change that has ended; `ChangeFailed` if it did not come about."""
        if state.failure is not None or state.cancelled:
            raise ChangeFailed(f"the {state.text} failed: {state.failure or 'it was cancelled'}")
        return Outcome(state.bins_moved, state.state_bytes, state.duration_s, state.stall_s_max)


NOTHING = Outcome(0, 0, 0.0, 0.0)
"""All was as it should be."""
