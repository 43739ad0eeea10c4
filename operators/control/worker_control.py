"""Answers what the supervisor asks one worker, in the worker's own thread, between its steps.

There is one table of requests and who answers them. What the answers say is `worker_status` and `worker_rescale`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from framework.worker.worker import Worker
from operators.admin.errors import BadRequest
from operators.broker.address import BrokerAddress
from operators.control import worker_messages as messages
from operators.control.worker_messages import Fed, Request, WorkerProgress, WorkerStatus
from operators.control.worker_rescale import assignment, check_may_leave, check_rescalable, goal_share, steward_of
from operators.control.worker_status import OperatorMeter, explain, movable_bins, obstacles, progress, status
from operators.job.flow import Flow
from operators.job.served import ServedJob
from routing.errors import GoalRefused
from routing.migration.goals import Goal, GoalState, Pace, Rebalance, Resize
from routing.registry import groups_on

T = TypeVar("T")


class WorkerControl:
    """The control plane's end in one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._flow: Flow | None = None
        self._operator_meter: OperatorMeter | None = None
        self._handlers: Mapping[type[Request[Any]], Callable[[Any], Any]] = {
            messages.AskProgress: self._progress,
            messages.AskStatus: self._status,
            messages.AskExplanation: lambda request: explain(worker, request.operator),
            messages.AskBins: lambda _: movable_bins(worker),
            messages.AskObstacles: lambda request: obstacles(worker, request.bins, request.group),
            messages.AskGoal: lambda request: goal_share(worker, self._flow, request.number),
            messages.AskBroker: self._broker,
            messages.StartAssign: self._start_assign,
            messages.StartRebalance: lambda request: self._start(Rebalance(), request.text, request.pace),
            messages.StartResize: self._start_resize,
            messages.NotComing: lambda request: steward_of(self._attached()).not_coming(request.worker),
            messages.CancelGoals: self._cancel,
            messages.CheckRescalable: lambda _: check_rescalable(worker),
            messages.CheckMayLeave: self._check_may_leave,
            messages.Leave: self._leave,
            messages.EndInputs: self._end_inputs,
        }

    def attach(self, flow: Flow) -> None:
        """Let the commands of the job's dataflow, which is built now, go through here."""
        self._flow = flow

    def answer(self, request: Request[T]) -> T:
        """What the worker answers; raises what is told to who asked."""
        answer: T = self._handlers[type(request)](request)
        return answer

    @property
    def fed(self) -> Fed:
        """What the worker has fed the job with."""
        return Fed(*self._flow.fed) if self._flow is not None else Fed(0, 0)

    # Questions

    def _progress(self, _: messages.AskProgress) -> WorkerProgress:
        return progress(self._worker, self._last_goal())

    def _status(self, _: messages.AskStatus) -> WorkerStatus:
        if self._operator_meter is None:
            self._operator_meter = OperatorMeter.start(self._worker, ended=self._forget_meter)
        serving = self._flow.serving if self._flow is not None else None
        return status(self._worker, self._operator_meter.keep(), serving.held if serving is not None else None)

    def _broker(self, _: messages.AskBroker) -> BrokerAddress | None:
        return None if self._flow is None else _served(self._flow).address()

    # Actions

    def _start(self, goal: Goal, text: str, pace: Pace) -> int:
        try:
            return steward_of(self._attached()).start(goal, text, pace)
        except GoalRefused as error:
            raise BadRequest(str(error)) from error

    def _start_assign(self, request: messages.StartAssign) -> int:
        steward_of(self._attached())
        return self._start(assignment(self._attached(), request), request.text, request.pace)

    def _start_resize(self, request: messages.StartResize) -> int | None:
        if not groups_on(self._worker):
            return None
        return self._start(Resize(request.joining, request.leaving), request.text, request.pace)

    def _cancel(self, _: messages.CancelGoals) -> tuple[GoalState, ...]:
        ended = steward_of(self._attached()).cancel()
        if not ended:
            raise BadRequest("no bins are being moved")
        return tuple(ended)

    def _check_may_leave(self, _: messages.CheckMayLeave) -> None:
        check_may_leave(self._attached())

    def _leave(self, _: messages.Leave) -> None:
        check_may_leave(self._attached())
        self._worker.ask_to_leave()

    def _end_inputs(self, _: messages.EndInputs) -> None:
        _served(self._attached()).finish()

    # State

    def _attached(self) -> Flow:
        if self._flow is None:
            raise BadRequest(f"the dataflow of worker {self._worker.id} is not built yet; ask again in a moment")
        return self._flow

    def _last_goal(self) -> GoalState | None:
        steward = self._flow.steward if self._flow is not None else None
        goals = steward.goals() if steward is not None else []
        return goals[-1] if goals else None

    def _forget_meter(self) -> None:
        self._operator_meter = None


def _served(flow: Flow) -> ServedJob:
    if flow.serving is None:
        raise BadRequest("this job is not open to others; start it with --serve")
    return flow.serving
