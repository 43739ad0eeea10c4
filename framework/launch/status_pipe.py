"""What a child tells its launcher unasked, a line of JSON each: that it is up, how its join goes, why it failed."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from framework.events import Event, JoinPhase, MembersChanged
from framework.launch.config import Spawned
from framework.launch.report import distance
from framework.membership.members import WorkerId
from framework.worker.worker import Worker


def tell_up(spawned: Spawned) -> None:
    """This process handles signals from now on."""
    _say(spawned, "up")


def tell_failure(spawned: Spawned, report: str, error: BaseException) -> None:
    """This process ends with `report`; how far `error` is from the cause says which process's report is printed."""
    _say(spawned, "failed", distance(error), report)


def tell_join(spawned: Spawned, worker: Worker) -> None:
    """Tell how the join of `worker` goes, until it is a member."""

    def read(id_: WorkerId, at_s: float, event: Event) -> None:
        match event:
            case JoinPhase(phase, duration_s):
                _say(spawned, "phase", id_, phase, duration_s)
            case MembersChanged(members) if id_ in members.workers:
                _say(spawned, "joined", id_)
                unsubscribe()

    unsubscribe = worker.events.subscribe(read)


def _say(spawned: Spawned, *what: object) -> None:
    with suppress(ConnectionError):  # the launcher is gone, and nobody reads
        os.write(spawned.report_fd, json.dumps(what).encode() + b"\n")
