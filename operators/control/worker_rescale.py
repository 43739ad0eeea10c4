"""A worker's part in a change of workers: whether it can take place, and what it costs while it does."""

from __future__ import annotations

from collections.abc import Sequence

from framework.membership.members import WorkerId
from framework.worker.worker import Worker
from operators.admin.errors import BadRequest
from operators.control.operator_view import BinnedOperatorView, StallMeter
from operators.control.plan_driver import fed_at, views_on
from operators.control.worker_messages import RescaleCost, RescaleShare
from operators.job.flow import Flow
from routing.registry import commanded_on, operators_on

POLL_S = 0.005
LISTEN_S = 10.0
"""How long it goes on polling after somebody has last asked."""


class RescaleMeter:
    """Counts bins that change hands and how long outputs stand still, on the worker that sends the commands."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._worker = flow.worker
        self._clock = self._worker.events.clock
        self._asked_s = self._clock()
        self._stall = StallMeter(self._asked_s)
        self._owners: dict[str, Sequence[WorkerId]] = {}
        self._bins_moved = 0
        self._polling = False
        """Not once nobody has asked for long, since a new process took its time, say."""
        self._tick = self._worker.activator(self._poll)
        self._poll()

    def cost(self) -> RescaleCost:
        """What has happened so far; all of it as of now, so that `settled` implies a full count."""
        self._asked_s = self._clock()
        if not self._polling:
            self._poll()
        views = self._note()
        steward = self._flow.steward
        return RescaleCost(
            joined=tuple(sorted(self._worker.membership.complete)),
            waiting=tuple(steward.waiting) if steward is not None else (),
            settled=all(view.settled for view in views.values()),
            bins_moved=self._bins_moved,
            stall_s_max=self._stall.longest_s,
        )

    def _poll(self) -> None:
        views = self._note()
        self._polling = bool(views) and self._clock() - self._asked_s < LISTEN_S
        if self._polling:
            self._tick.activate_after(POLL_S)

    def _note(self) -> dict[str, BinnedOperatorView]:
        views = views_on(self._worker)
        self._stall.note(self._clock(), fed_at(self._flow), views)
        self._bins_moved += max((self._moved(path, view) for path, view in views.items()), default=0)
        self._owners = {path: tuple(view.installed) for path, view in views.items()}
        return views

    def _moved(self, path: str, view: BinnedOperatorView) -> int:
        before = self._owners.get(path, view.installed)
        return sum(was != now for was, now in zip(before, view.installed, strict=True))


def check_rescalable(worker: Worker) -> None:
    """Raise unless all bins of a job can be moved by the job itself."""
    own = {operator.path for operator in operators_on(worker)} - {operator.path for operator in commanded_on(worker)}
    names = sorted(repr(operator.name) for operator in operators_on(worker) if operator.path in own)
    if names:
        raise BadRequest(
            f"the workers of this job cannot change: {', '.join(names)} listen to a control stream of their own, on "
            f"which nobody brings workers in; leave `control` out, and they listen to the job's"
        )


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


def rescale_share(worker: Worker, meter: RescaleMeter | None) -> RescaleShare:
    """How far a worker is with its part; `meter` is that of the one that sends the commands."""
    return RescaleShare(
        received_bytes=sum(operator.received_bytes() for operator in operators_on(worker)),
        objection=worker.membership.obstacles.objection() if worker.asked_to_leave else None,
        cost=meter.cost() if meter is not None else None,
    )
