"""Carries plans out on the worker that sends a job's commands: looks at its operators, and sends what is due.

`PlanExecution` decides; this tells it what there is to see, every few milliseconds while a plan runs.
"""

from __future__ import annotations

from typing import Any

from framework.errors import UserError
from framework.progress.explain import scopes_of
from framework.progress.location import Source
from framework.progress.order import EPOCH_MAX
from framework.worker.worker import Worker
from operators.admin.errors import BadRequest
from operators.control.plan_execution import PlanExecution, Seen
from operators.job.flow import Flow
from routing.migration.plan import Plan
from routing.registry import BinnedOperator, commanded_on

LOOK_S = 0.005


class PlanDriver:
    """The plans of one job, one at a time; in the worker's own thread."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._worker = flow.worker
        self._execution: PlanExecution | None = None
        self._number = -1
        self._tick = self._worker.activator(self._look)

    def start(self, plan: Plan, gap_s: float) -> int:
        """Begin with a plan; return its number."""
        if self._execution is not None and not self._execution.finished:
            raise BadRequest(
                f"plan {self._number} is under way ({self._execution.report().progress}); wait for it, or end it with "
                f"`hailer cancel`"
            )
        self._check(plan)
        self._execution = PlanExecution(plan, self._worker.events.clock(), gap_s)
        self._number += 1
        self._look()
        return self._number

    def cancel(self) -> dict[str, Any]:
        """Send no more steps."""
        if self._execution is None or self._execution.finished:
            raise BadRequest("no plan is under way")
        self._execution.cancel()
        return self.state() or {}

    def state(self) -> dict[str, Any] | None:
        """How the last plan is doing, in JSON's terms."""
        if self._execution is None:
            return None
        report = self._execution.report()
        return {
            "plan": self._number,
            "finished": report.finished,
            "failure": report.failure,
            "duration_s": report.duration_s,
            "stall_s_max": report.stall_s_max,
            "cancelled": report.progress.cancelled,
            "steps_done": report.progress.steps_done,
            "steps": report.progress.steps,
            "bins_moved": report.progress.bins_moved,
            "bins": report.progress.bins,
        }

    def _check(self, plan: Plan) -> None:
        """Refuse what the operators would refuse, before anything is sent."""
        if not self._flow.commanding:
            raise BadRequest(
                f"worker {self._worker.id} sends no commands, worker {min(self._worker.members.workers)} does"
            )
        operators = commanded_on(self._worker)
        if not operators or self._flow.control is None:
            raise BadRequest("no operator of this job keeps its state on bins that commands move; see `hailer status`")
        members = set(self._worker.members.workers)
        named = {transfer.bin_id for step in plan.steps for transfer in step.transfers}
        for operator in operators:
            beyond = [bin_id for bin_id in named if bin_id >= operator.bins.count]
            if beyond:
                raise BadRequest(
                    f"there is no bin {min(beyond)}: operator {operator.name!r} has bins 0 to {operator.bins.count - 1}"
                )
        strangers = {transfer.target for step in plan.steps for transfer in step.transfers} - members
        if strangers:
            listed = ", ".join(map(str, sorted(members)))
            raise BadRequest(f"there is no worker {min(strangers)}; there are {listed}")

    def _look(self) -> None:
        execution = self._execution
        if execution is None or execution.finished:
            return
        step = execution.look(self._worker.events.clock(), fed_at(self._flow), seen_on(self._worker))
        if step is not None:
            try:
                self._flow.command(*step.moves)
            except UserError as error:
                execution.abandon(str(error))
        if not execution.finished:
            self._tick.activate_after(LOOK_S)


def fed_at(flow: Flow) -> int | None:
    """The epoch that commands are sent at, with which the inputs go along; None if none can be sent any more."""
    try:
        return flow.control.time if flow.control is not None else None
    except UserError:  # the input is closed
        return None


def seen_on(worker: Worker) -> dict[str, Seen]:
    """The operators on bins that commands move, by their paths, as this worker sees them."""
    return {
        operator.path: Seen(
            operator.table.owners_at(EPOCH_MAX),
            operator.table.owners,
            operator.table.since,
            _output(worker, operator),
        )
        for operator in commanded_on(worker)
    }


def _output(worker: Worker, operator: BinnedOperator) -> int | None:
    """How far an operator's results are, on all workers."""
    around, _, index = operator.path.rpartition(".")
    root = worker.dataflows().get(int(around.partition(".")[0]))
    if root is None:
        return None
    scope = scopes_of(root)[around]
    frontier = scope.ledger().tracker.frontier(scope.compiled.ids[Source(int(index), 0)]).frontier()
    return min((time for time in frontier if isinstance(time, int)), default=None)
