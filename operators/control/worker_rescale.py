"""A worker's part in moving bins and in changes of workers: whether they can take place, and how they are doing."""

from __future__ import annotations

from framework.worker.worker import Worker
from operators.admin.errors import BadRequest
from operators.control.worker_messages import GoalShare, StartAssign, Unmoved
from operators.job.flow import Flow
from operators.job.steward import Steward
from routing.migration.goals import Assign
from routing.registry import commanded_on, groups_on, operators_on


def steward_of(flow: Flow) -> Steward:
    """Who moves the bins of a job, on the worker that sends its commands; raises if nobody can."""
    worker = flow.worker
    if not flow.commanding:
        raise BadRequest(f"worker {worker.id} sends no commands, worker {min(worker.members.workers)} does")
    if not groups_on(worker) or flow.control is None:
        raise BadRequest(
            "no operator of this job keeps its state on bins that can be moved; `hailer status` lists its operators"
        )
    if flow.steward is None or flow.control.closed:
        raise BadRequest("the inputs of this job have ended, or have not begun, and its bins do not move")
    return flow.steward


def assignment(flow: Flow, request: StartAssign) -> Assign:
    """The goal that a request asks for, once its group is known."""
    groups = groups_on(flow.worker)
    if request.group is None and len(groups) > 1:
        raise BadRequest(
            f"the operators of this job are of several groups; say which one, with --group: {', '.join(groups)}"
        )
    group = next(iter(groups)) if request.group is None else request.group
    bins = groups[group][0].bins.count if group in groups else 0
    if request.complete and bins and len(request.owners) != bins:
        raise BadRequest(f"there are {bins} bins, but {len(request.owners)} owners; name one for each bin")
    return Assign(group, request.owners)


def check_rescalable(worker: Worker) -> Unmoved:
    """Raise unless all bins of a job can be moved by the job itself; which operators have none."""
    own = {operator.path for operator in operators_on(worker)} - {operator.path for operator in commanded_on(worker)}
    names = sorted(repr(operator.name) for operator in operators_on(worker) if operator.path in own)
    if names:
        raise BadRequest(
            f"the workers of this job cannot change: {', '.join(names)} listen to a control stream of their own, on "
            f"which nobody brings workers in; leave `control` out, and they listen to the job's"
        )
    return Unmoved(worker.membership.obstacles.fixed_operators)


def check_may_leave(flow: Flow) -> None:
    """Raise unless a worker can leave, with the reason."""
    worker = flow.worker
    check_rescalable(worker)
    if flow.commanding:
        raise BadRequest(
            f"worker {worker.id} cannot leave: it feeds the job and sends its commands; "
            f"to end the job, stop `hailer run`"
        )
    worker.membership.obstacles.check()
    if not (worker.asked_to_leave or worker.leaves_when_asked):
        raise BadRequest(f"worker {worker.id} cannot leave yet: it is about to begin, or it feeds inputs; ask again")


def goal_share(worker: Worker, flow: Flow | None, number: int) -> GoalShare:
    """What a worker knows of a goal."""
    steward = flow.steward if flow is not None and flow.commanding else None
    goals = [] if steward is None else [goal for goal in steward.goals() if goal.number == number]
    return GoalShare(
        received_bytes=sum(operator.received_bytes() for operator in operators_on(worker)),
        objection=worker.membership.obstacles.objection() if worker.asked_to_leave else None,
        goal=goals[0] if goals else None,
    )
