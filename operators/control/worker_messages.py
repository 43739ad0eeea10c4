"""What the supervisor asks a worker, and what the worker answers.

A request is a value of its own class, which names the type of its answer: `Request[WorkerStatus]` is answered with a
`WorkerStatus`. Who answers is `operators.control.worker_control`; who asks, `operators.control.worker_rpc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args

from framework.membership.members import WorkerId
from framework.progress.order import Time
from operators.admin.errors import BadRequest
from operators.admin.json_codec import from_json
from operators.broker.address import BrokerAddress
from routing.bins import BinId
from routing.load import BinWeight
from routing.migration.goals import GoalState, Pace

Frontier = tuple[Time, ...]
"""The least times that may still come."""

# Answers


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """How far a worker is."""

    frontier: Frontier
    goal: GoalState | None
    """The last that bins were moved for."""


@dataclass(frozen=True, slots=True)
class Fed:
    """What inputs were fed with: in how many epochs, and how many records. What a process says when it is done."""

    epochs: int
    records: int


@dataclass(frozen=True, slots=True)
class OperatorActivity:
    """What an operator has done on one worker since it is metered."""

    path: str
    name: str
    frontier: Frontier
    records: int
    busy_s: float


@dataclass(frozen=True, slots=True)
class BinTable:
    """The bins of an operator."""

    path: str
    name: str
    owners: tuple[WorkerId, ...]
    pending: tuple[int, ...]
    """The epochs of moves that are not yet carried out."""
    keys: dict[BinId, int]
    """How many keys have a state, by bin; bins without any are left out."""


@dataclass(frozen=True, slots=True)
class LateRecords:
    """How many of the records that came to an operator on windows were late."""

    path: str
    name: str
    late: int
    records: int


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """All that `hailer status` shows of a worker."""

    frontier: Frontier
    members: tuple[WorkerId, ...]
    leaving: bool
    congested: bool
    metered_s: float
    operators: tuple[OperatorActivity, ...]
    bins: tuple[BinTable, ...]
    late: tuple[LateRecords, ...]
    held: str | None
    """Why a job that is served takes nothing in, on the worker that feeds it, if it does not."""


@dataclass(frozen=True, slots=True)
class BlockerState:
    """What holds a frontier back: a capability at an output, or records before an input."""

    path: str
    name: str
    """Of the operator that has it."""
    kind: Literal["capability", "records"]
    port: int
    time: Time
    count: int
    arrives: Time
    """The time at which it could arrive at the operator that waits."""
    via: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkerExplanation:
    """What a worker holds that holds back the frontier of an operator, and what it has heard of the others."""

    path: str
    name: str
    frontier: Frontier
    held: tuple[BlockerState, ...]
    heard: tuple[BlockerState, ...]


@dataclass(frozen=True, slots=True)
class MovableBins:
    """What a plan is made from: a group of operators whose bins the job's own commands move."""

    group: str
    owners: tuple[WorkerId, ...]
    """Once all that was announced is installed; empty if the worker does not know them yet."""
    eligible: tuple[WorkerId, ...]
    """Who may own bins."""
    weights: dict[BinId, BinWeight]
    """What the bins on this worker weigh."""


@dataclass(frozen=True, slots=True)
class MoveObstacles:
    """Why bins cannot move, of those that a worker has looked at."""

    found: tuple[str, ...]
    left: tuple[BinId, ...]
    """Those that it has not looked at yet: ask for them again."""


@dataclass(frozen=True, slots=True)
class GoalShare:
    """How a goal is doing, as far as one worker knows."""

    received_bytes: int
    """All state that has come to it."""
    objection: str | None
    """Why it cannot leave yet, if it was asked to."""
    goal: GoalState | None
    """On the worker that sends the commands."""


@dataclass(frozen=True, slots=True)
class Unmoved:
    """What stays where it is when workers come and go."""

    operators: tuple[str, ...]
    """Those whose keys are with the workers that the job began with."""


# Requests

T = TypeVar("T")


class Request(Generic[T]):
    """What a worker is asked; `T` is the type of what it answers."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AskProgress(Request[WorkerProgress]):
    """How far is it? Cheap."""


@dataclass(frozen=True, slots=True)
class AskStatus(Request[WorkerStatus]):
    """What does it do? Its operators are metered from the first time on, while somebody asks."""


@dataclass(frozen=True, slots=True)
class AskExplanation(Request[WorkerExplanation]):
    """What holds an operator's frontier back: that of the last one, unless it is named?"""

    operator: str | None


@dataclass(frozen=True, slots=True)
class AskBins(Request[tuple[MovableBins, ...]]):
    """Which bins can be moved?"""


@dataclass(frozen=True, slots=True)
class AskObstacles(Request[MoveObstacles]):
    """Which of these bins of a group, or of all, could not move now? It looks at some, for as long as a job may well
    stand still."""

    bins: tuple[BinId, ...]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class AskGoal(Request[GoalShare]):
    """How is the goal of this number doing?"""

    number: int


@dataclass(frozen=True, slots=True)
class AskBroker(Request[BrokerAddress | None]):
    """Where is the job fed and read? None if it is not open yet."""


@dataclass(frozen=True, slots=True)
class StartAssign(Request[int]):
    """Begin to give bins to workers; the number of the goal. Without a group, there must be one only."""

    text: str
    group: str | None
    owners: dict[BinId, WorkerId]
    complete: bool
    """Whether the owners are those of all bins."""
    pace: Pace


@dataclass(frozen=True, slots=True)
class StartRebalance(Request[int]):
    """Begin to spread bins over the workers by what they weigh; the number of the goal."""

    text: str
    pace: Pace


@dataclass(frozen=True, slots=True)
class StartResize(Request[int | None]):
    """Begin to wait for workers that are to join, and to empty others; the number of the goal, None without bins."""

    text: str
    joining: tuple[WorkerId, ...]
    leaving: tuple[WorkerId, ...]
    pace: Pace


@dataclass(frozen=True, slots=True)
class NotComing(Request[None]):
    """A worker that was to join will not."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class CancelGoals(Request[tuple[GoalState, ...]]):
    """Send no more steps; the goals that this has ended."""


@dataclass(frozen=True, slots=True)
class CheckRescalable(Request[Unmoved]):
    """Refuse unless workers can join and leave; what does not move when they do."""


@dataclass(frozen=True, slots=True)
class CheckMayLeave(Request[None]):
    """Refuse unless the worker can leave."""


@dataclass(frozen=True, slots=True)
class Leave(Request[None]):
    """Leave as soon as its bins are with others."""


@dataclass(frozen=True, slots=True)
class EndInputs(Request[None]):
    """End the inputs that others feed."""


REQUESTS: Mapping[str, type[Request[Any]]] = {
    request.__name__: request
    for request in (
        AskProgress,
        AskStatus,
        AskExplanation,
        AskBins,
        AskObstacles,
        AskGoal,
        AskBroker,
        StartAssign,
        StartRebalance,
        StartResize,
        NotComing,
        CancelGoals,
        CheckRescalable,
        CheckMayLeave,
        Leave,
        EndInputs,
    )
}
"""All there are, by what they are called on the link."""


def read_request(name: str, arguments: Mapping[str, Any]) -> Request[Any]:
    """The request that came as a name and arguments."""
    if name not in REQUESTS:
        raise BadRequest(f"a worker knows no request {name!r}")
    request: Request[Any] = from_json(REQUESTS[name], dict(arguments))
    return request


def read_answer(request: Request[T], document: Any) -> T:
    """The answer to `request` that came as JSON."""
    [base] = type(request).__orig_bases__  # type: ignore[attr-defined]
    answer: T = from_json(get_args(base)[0], document)
    return answer
