"""What a job goes through while its workers change, as the worker sees it that sends the commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framework.membership.members import WorkerId
from framework.worker.worker import Worker
from operators.admin.errors import BadRequest
from operators.control.plan_driver import fed_at, seen_on
from operators.control.plan_execution import Seen, Stall
from operators.job.flow import Flow
from routing.registry import commanded_on, operators_on

LOOK_S = 0.005
LISTEN_S = 10.0
"""How long it goes on looking after somebody has last asked."""


class RescaleWatch:
    """Counts bins that change hands and how long outputs stand still, while somebody asks; in the worker's thread."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._worker = flow.worker
        self._clock = self._worker.events.clock
        self._asked_s = self._clock()
        self._stall = Stall(self._asked_s)
        self._owners: dict[str, Sequence[WorkerId]] = {}
        self._bins_moved = 0
        self._looks = False
        """Whether it looks by itself: not once nobody has asked for long, since a new process took its time, say."""
        self._tick = self._worker.activator(self._look)
        self._look()

    def state(self) -> dict[str, Any]:
        """What has happened so far, in JSON's terms: all of it as of now, so that `settled` implies a full count."""
        self._asked_s = self._clock()
        if self._looks:
            self._note()
        else:
            self._look()
        steward = self._flow.steward
        return {
            "joined": sorted(self._worker.rescaling.complete),
            "waiting": list(steward.waiting) if steward is not None else [],
            "settled": all(_is_settled(seen) for seen in seen_on(self._worker).values()),
            "bins_moved": self._bins_moved,
            "stall_s_max": self._stall.longest_s,
        }

    def _look(self) -> None:
        self._note()
        self._looks = bool(self._owners) and self._clock() - self._asked_s < LISTEN_S
        if self._looks:
            self._tick.activate_after(LOOK_S)

    def _note(self) -> None:
        operators = seen_on(self._worker)
        self._stall.note(self._clock(), fed_at(self._flow), operators)
        self._bins_moved += max((self._moved(path, seen) for path, seen in operators.items()), default=0)
        self._owners = {path: tuple(seen.installed) for path, seen in operators.items()}

    def _moved(self, path: str, seen: Seen) -> int:
        before = self._owners.get(path, seen.installed)
        return sum(was != now for was, now in zip(before, seen.installed, strict=True))


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
    worker.rescaling.check_may_leave()
    if not (worker.asked_to_leave or worker.leaves_when_asked):
        raise BadRequest(f"worker {worker.id} cannot leave yet: it is about to begin, or it feeds inputs; ask again")


def share(worker: Worker, watch: RescaleWatch | None) -> Mapping[str, Any]:
    """A worker's part in a change of workers; `watch` is that of the one that sends the commands."""
    return {
        "received_bytes": sum(operator.received_bytes() for operator in operators_on(worker)),
        "leaving": worker.asked_to_leave,
        "objection": worker.rescaling.objection() if worker.asked_to_leave else None,
        "watch": watch.state() if watch is not None else None,
    }


def _is_settled(seen: Seen) -> bool:
    """Whether all moves are installed and the bins have arrived."""
    return list(seen.ahead) == list(seen.installed) and (seen.output is None or seen.output > seen.since)
