"""The status pipe: what a process reports to its supervisor unasked, one line of JSON each.

That it handles signals, that it is alive, how its workers' joins go, and what it has done, or why it fails.
"""

from __future__ import annotations

import json
import os
import select
import threading
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import Any, TypeAlias

from framework.events import Event, JoinPhase, MembersChanged
from framework.launch.liveness import WorkerBeat
from framework.membership.members import WorkerId
from framework.worker.worker import Worker

CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Up:
    """The process handles signals from now on."""


@dataclass(frozen=True, slots=True)
class Beat:
    """The process is alive; a `WorkerBeat` for each of its workers follows."""


@dataclass(frozen=True, slots=True)
class LastBeat:
    """The process has ended its work, and exits."""


@dataclass(frozen=True, slots=True)
class PhaseDone:
    """A worker has come through a phase of its join."""

    worker: WorkerId
    phase: str
    duration_s: float


@dataclass(frozen=True, slots=True)
class JoinDone:
    """A worker is a member."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class ProcessDone:
    """The process has done its part; `what` is its control plane's word for it, in JSON's terms."""

    what: Any


@dataclass(frozen=True, slots=True, order=True)
class Failure:
    """The process ends with this report; the one nearest to the cause is printed."""

    distance: int
    """How far its error is from the cause; see `framework.launch.report.distance`."""
    report: str


Status: TypeAlias = Up | Beat | WorkerBeat | LastBeat | PhaseDone | JoinDone | ProcessDone | Failure

_KINDS: dict[str, type[Status]] = {
    "up": Up,
    "beat": Beat,
    "worker": WorkerBeat,
    "last": LastBeat,
    "phase": PhaseDone,
    "joined": JoinDone,
    "done": ProcessDone,
    "failed": Failure,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}

_writing = threading.Lock()
"""A long line is not written at once."""


def send_status(descriptor: int, status: Status) -> None:
    """Report to the supervisor, if it is still there."""
    line = json.dumps([_NAMES[type(status)], *astuple(status)]).encode() + b"\n"
    with suppress(OSError), _writing:
        while line:
            line = line[os.write(descriptor, line) :]


def send_if_read(descriptor: int, status: Status) -> None:
    """The same, unless what was sent before lies there unread: the supervisor is stopped, say."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    if poll.poll(0):
        send_status(descriptor, status)


def report_join(descriptor: int, worker: Worker) -> None:
    """Report how the join of `worker` goes, until it is a member."""

    def read(id_: WorkerId, at_s: float, event: Event) -> None:
        match event:
            case JoinPhase(phase, duration_s):
                send_status(descriptor, PhaseDone(id_, phase, duration_s))
            case MembersChanged(members) if id_ in members.workers:
                send_status(descriptor, JoinDone(id_))
                unsubscribe()

    unsubscribe = worker.events.subscribe(read)


class StatusReader:
    """The supervisor's end of the pipe of one process. Owns its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self._closed = False

    def fileno(self) -> int:
        """The descriptor, to be selected on."""
        return self._descriptor

    def read(self) -> list[Status] | None:
        """What has been reported since the last call; None at the end, which is that of the process."""
        try:
            data = os.read(self._descriptor, CHUNK_BYTES)
        except OSError:  # a connection fails in many ways: see tcp(7)
            data = b""
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return list(map(_decode, lines))

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        if not self._closed:
            self._closed = True
            os.close(self._descriptor)


def _decode(line: bytes) -> Status:
    name, *values = json.loads(line)
    return _KINDS[name](*values)
