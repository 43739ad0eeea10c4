"""Drives plans on the worker that sends a job's commands: shows them the operators, and sends the steps that are due.

`RunningPlan` decides; it is shown the operators every few milliseconds.
"""

from __future__ import annotations

from framework.errors import UserError
from framework.progress.order import EPOCH_MAX
from framework.worker.worker import Worker
from operators.admin.errors import BadRequest
from operators.control.operator_view import BinnedOperatorView
from operators.control.running_plan import RunningPlan
from operators.control.worker_messages import PlanState
from operators.job.flow import Flow
from routing.migration.plan import Plan
from routing.registry import commanded_on

POLL_S = 0.005


class PlanDriver:
    """The plans of one job, one at a time; in the worker's own thread."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._worker = flow.worker
        self._plan: RunningPlan | None = None
        """The last one."""
        self._tick = self._worker.activator(self._poll)

    def start(self, plan: Plan, gap_s: float) -> int:
        """Begin with a plan; return its number."""
        last = self._plan
        if last is not None and not last.finished:
            raise BadRequest(
                f"plan {last.number} is under way ({last.runner.progress()}); wait for it, or end it with "
                f"`hailer cancel`"
            )
        self._check(plan)
        number = 0 if last is None else last.number + 1
        self._plan = RunningPlan(number, plan, self._worker.events.clock(), gap_s)
        self._poll()
        return number

    def cancel(self) -> PlanState:
        """Send no more steps."""
        if self._plan is None or self._plan.finished:
            raise BadRequest("no plan is under way")
        self._plan.cancel()
        return self._plan.state()

    def state(self) -> PlanState | None:
        """How the last plan is doing."""
        return self._plan.state() if self._plan is not None else None

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

    def _poll(self) -> None:
        plan = self._plan
        if plan is None or plan.finished:
            return
        step = plan.observe(self._worker.events.clock(), fed_at(self._flow), views_on(self._worker))
        if step is not None:
            try:
                self._flow.command(*step.moves)
            except UserError as error:
                plan.abandon(str(error))
        if not plan.finished:
            self._tick.activate_after(POLL_S)


def fed_at(flow: Flow) -> int | None:
    """The epoch that commands are sent at, with which the inputs go along; None if none can be sent any more."""
    try:
        return flow.control.time if flow.control is not None else None
    except UserError:  # the input is closed
        return None


def views_on(worker: Worker) -> dict[str, BinnedOperatorView]:
    """The operators on bins that commands move, by their paths, as this worker sees them."""
    return {
        operator.path: BinnedOperatorView(
            operator.table.owners_at(EPOCH_MAX),
            operator.table.owners,
            operator.table.since,
            complete if (complete := operator.complete()) < EPOCH_MAX else None,
        )
        for operator in commanded_on(worker)
    }
