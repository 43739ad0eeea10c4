"""Answers what the supervisor asks one worker, in the worker's own thread, between its steps.

There is one table of requests and who answers them. What the answers say is `worker_status`, `worker_rescale` and
`plan_driver`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from framework.worker.worker import Worker
from operators.admin.errors import BadRequest
from operators.broker.address import BrokerAddress
from operators.control import worker_messages as messages
from operators.control.plan_driver import PlanDriver
from operators.control.worker_messages import PlanShare, PlanState, Request, RescaleShare, WorkerProgress, WorkerStatus
from operators.control.worker_rescale import RescaleMeter, check_may_leave, check_rescalable, rescale_share
from operators.control.worker_status import OperatorMeter, explain, movable_bins, progress, status
from operators.job.flow import Flow
from operators.job.served import ServedJob
from routing.registry import commanded_on

T = TypeVar("T")


class WorkerControl:
    """The control plane's end in one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._flow: Flow | None = None
        self._driver: PlanDriver | None = None
        self._operator_meter: OperatorMeter | None = None
        self._rescale_meter: RescaleMeter | None = None
        self._handlers: Mapping[type[Request[Any]], Callable[[Any], Any]] = {
            messages.AskProgress: self._progress,
            messages.AskStatus: self._status,
            messages.AskExplanation: lambda request: explain(worker, request.operator),
            messages.AskBins: lambda _: movable_bins(worker),
            messages.AskPlan: self._plan_share,
            messages.AskRescale: self._rescale_share,
            messages.AskBroker: self._broker,
            messages.RunPlan: lambda request: self._attached()[1].start(request.plan, request.gap_s),
            messages.CancelPlan: lambda _: self._attached()[1].cancel(),
            messages.BeginRescale: self._begin_rescale,
            messages.CheckMayLeave: self._check_may_leave,
            messages.Leave: self._leave,
            messages.EndInputs: self._end_inputs,
        }

    def attach(self, flow: Flow) -> None:
        """Let the commands of the job's dataflow, which is built now, go through here."""
        self._flow, self._driver = flow, PlanDriver(flow)

    def answer(self, request: Request[T]) -> T:
        """What the worker answers; raises what is told to who asked."""
        answer: T = self._handlers[type(request)](request)
        return answer

    # Questions

    def _progress(self, _: messages.AskProgress) -> WorkerProgress:
        return progress(self._worker, self._plan())

    def _status(self, _: messages.AskStatus) -> WorkerStatus:
        if self._operator_meter is None:
            self._operator_meter = OperatorMeter.start(self._worker, ended=self._forget_meter)
        return status(self._worker, self._operator_meter.keep(), self._plan())

    def _plan_share(self, _: messages.AskPlan) -> PlanShare:
        return PlanShare(self._plan(), sum(operator.shipped_bytes() for operator in commanded_on(self._worker)))

    def _rescale_share(self, _: messages.AskRescale) -> RescaleShare:
        return rescale_share(self._worker, self._rescale_meter)

    def _broker(self, _: messages.AskBroker) -> BrokerAddress | None:
        return None if self._flow is None else _served(self._flow).address()

    # Actions

    def _begin_rescale(self, _: messages.BeginRescale) -> PlanState | None:
        flow, driver = self._attached()
        check_rescalable(self._worker)
        self._rescale_meter = RescaleMeter(flow)
        return driver.state()

    def _check_may_leave(self, _: messages.CheckMayLeave) -> None:
        check_may_leave(self._attached()[0])

    def _leave(self, _: messages.Leave) -> None:
        check_may_leave(self._attached()[0])
        self._worker.ask_to_leave()

    def _end_inputs(self, _: messages.EndInputs) -> None:
        _served(self._attached()[0]).finish()

    # State

    def _attached(self) -> tuple[Flow, PlanDriver]:
        if self._flow is None or self._driver is None:
            raise BadRequest(f"the dataflow of worker {self._worker.id} is not built yet; ask again in a moment")
        return self._flow, self._driver

    def _plan(self) -> PlanState | None:
        return self._driver.state() if self._driver is not None else None

    def _forget_meter(self) -> None:
        self._operator_meter = None


def _served(flow: Flow) -> ServedJob:
    if flow.serving is None:
        raise BadRequest("this job is not open to others; start it with --serve")
    return flow.serving
