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
from routing.migration.plan import Plan

Frontier = tuple[Time, ...]
"""The least times that may still come."""

# Answers


@dataclass(frozen=True, slots=True)
class PlanState:
    """How a plan is doing, or how it ended."""

    plan: int
    """Its number: plans of a job are counted from 0."""
    finished: bool
    failure: str | None
    duration_s: float
    stall_s_max: float
    """The longest that outputs stood still while it ran."""
    cancelled: bool
    steps_done: int
    steps: int
    bins_moved: int
    bins: int


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """How far a worker is."""

    frontier: Frontier
    plan: PlanState | None


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
class WorkerStatus:
    """All that `hailer status` shows of a worker."""

    frontier: Frontier
    members: tuple[WorkerId, ...]
    leaving: bool
    congested: bool
    metered_s: float
    operators: tuple[OperatorActivity, ...]
    bins: tuple[BinTable, ...]
    plan: PlanState | None


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
    """What a plan is made from: an operator whose bins the job's own commands move."""

    name: str
    owners: tuple[WorkerId, ...]
    ahead: tuple[WorkerId, ...]
    """The owners once all that was announced is installed."""
    keys: dict[BinId, int]
    shipped_bytes: int


@dataclass(frozen=True, slots=True)
class PlanShare:
    """How the last plan is doing, and how much state has left this worker so far."""

    plan: PlanState | None
    shipped_bytes: int


@dataclass(frozen=True, slots=True)
class RescaleCost:
    """What a job has gone through since its workers began to change, as the worker sees it that sends the commands."""

    joined: tuple[WorkerId, ...]
    waiting: tuple[WorkerId, ...]
    """Those that have not received all commands that they need."""
    settled: bool
    """Whether all moves are installed and the bins have arrived."""
    bins_moved: int
    stall_s_max: float


@dataclass(frozen=True, slots=True)
class RescaleShare:
    """A worker's part in a change of workers."""

    received_bytes: int
    objection: str | None
    """Why it cannot leave yet, if it was asked to."""
    cost: RescaleCost | None
    """On the worker that sends the commands."""


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
class AskPlan(Request[PlanShare]):
    """How is the last plan doing?"""


@dataclass(frozen=True, slots=True)
class AskRescale(Request[RescaleShare]):
    """How is its part in a change of workers doing?"""


@dataclass(frozen=True, slots=True)
class AskBroker(Request[BrokerAddress | None]):
    """Where is the job fed and read? None if it is not open yet."""


@dataclass(frozen=True, slots=True)
class RunPlan(Request[int]):
    """Begin with a plan; its number."""

    plan: Plan
    gap_s: float


@dataclass(frozen=True, slots=True)
class CancelPlan(Request[PlanState]):
    """Send no more steps of the plan."""


@dataclass(frozen=True, slots=True)
class BeginRescale(Request[PlanState | None]):
    """Check that workers can join and leave, and meter what that costs from now on; the last plan, if there is one."""


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
        AskPlan,
        AskRescale,
        AskBroker,
        RunPlan,
        CancelPlan,
        BeginRescale,
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
