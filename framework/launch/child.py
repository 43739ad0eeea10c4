"""One process of a job, as its supervisor knows it: what it has reported, whether it is alive, and how it ended."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from math import inf

from framework.launch.control_protocol import Supervised
from framework.launch.launcher import KILLED_S_MAX, Started
from framework.launch.liveness import Overdue, Silent, SteppedAgain, Unstepped, WorkerBeat
from framework.launch.report import render_silent, render_unstepped
from framework.launch.status_pipe import Beat, Failure, JoinDone, LastBeat, PhaseDone, ProcessDone, StatusReader, Up

_log = logging.getLogger("hailer.launch")

LAST_STATUS_S = 1.0
"""How long what a process has reported may take to arrive once it has ended, if its status pipe does not end."""

CHECK_S = 0.5
"""How often it is looked whether a process is alive."""


@dataclass(slots=True, eq=False)
class ChildProcess:
    """One process, with what it has reported."""

    process: Started
    supervised: Supervised
    status: StatusReader
    up: bool = False
    """Whether it handles signals."""
    failure: Failure | None = None
    asked_to_end: bool = False
    """Then how it ends tells nothing."""
    status_until_s: float = inf
    """When its status pipe is read no more, although a process that it has forked holds it open."""
    lost: str | None = None
    """Why it was killed, if it was."""
    watched: bool = False
    """Whether its status pipe is read."""
    ended_s: float = inf
    """When it was found to have ended."""
    killed_s: float = inf
    check_at_s: float = 0.0

    @property
    def index(self) -> int:
        return self.supervised.process

    @property
    def code(self) -> int | None:
        return self.process.poll()

    @property
    def never_joined(self) -> bool:
        """Whether it has not become a part of the job, which goes on without it."""
        return not self.supervised.joined

    @property
    def left(self) -> bool:
        """Whether it has ended, and the job goes on; the first process, which feeds it, never leaves in this way."""
        return self.supervised.ended.is_set() and (self.never_joined or (self.code == 0 and self.index > 0))

    def receive(self, now_s: float) -> bool:
        """Take in what it reports; whether there may be more."""
        reported = self.status.read()
        liveness = self.supervised.liveness
        for status in reported or ():
            match status:
                case Up():
                    self.up = True
                case Beat():
                    liveness.beat(now_s)
                case WorkerBeat():
                    liveness.worker_beat(status, now_s)
                case LastBeat():
                    liveness.rest()
                case PhaseDone():
                    self.supervised.phases.append((status.worker, status.phase, status.duration_s))
                case JoinDone(worker):
                    self.supervised.joined.add(worker)
                case ProcessDone(what):
                    self.supervised.done = what
                case Failure():
                    self.failure = status
        return reported is not None

    def check(self, now_s: float) -> None:
        """See whether it is alive and its workers step; name those that do not, and kill it if it is lost."""
        if now_s < self.check_at_s or self.asked_to_end or self.lost is not None or self.code is not None:
            return
        self.check_at_s = now_s + CHECK_S
        for finding in self.supervised.liveness.check(now_s, self.process.cpu_time_s()):
            match finding:
                case Silent(for_s):
                    self._kill_lost(render_silent(self._name, for_s, time.time()))
                case Overdue(unstepped):
                    allowed = f"longer than --step-timeout allows: {render_unstepped(unstepped)}"
                    self._kill_lost(f"{self._name} was killed, since one of its workers was in a step {allowed}")
                case Unstepped():
                    _log.warning("%s", render_unstepped(finding))
                case SteppedAgain(worker, after_s):
                    _log.warning("worker %d steps again, after %.0f s", worker, after_s)

    def kill(self) -> None:
        """End it at once, however long that takes."""
        self.killed_s = min(self.killed_s, time.monotonic())
        self.process.kill()

    def _kill_lost(self, why: str) -> None:
        self.lost = why
        self.kill()

    def outlived(self, now_s: float) -> bool:
        """Whether its status pipe has not ended, and is waited for no longer: it ended or was killed a while ago."""
        if self.status_until_s == inf and self.code is not None:
            self.status_until_s = now_s + LAST_STATUS_S
        return now_s >= min(self.status_until_s, self.killed_s + KILLED_S_MAX)

    def reap(self) -> int:
        """It has ended: release it; its exit code."""
        code = self.process.wait()
        if code != 0:
            self.supervised.failure = self.failure.report if self.failure is not None else self.ending()
        self.ended_s = time.monotonic()
        self.supervised.ended.set()
        self.release()
        return code

    def release(self) -> None:
        """Close what connects to it. Idempotent."""
        self.status.close()
        self.supervised.rpc.close()

    def ending(self) -> str:
        """How it ended, if it did not report that."""
        return self.lost or f"process {self.index} {self.process.ending()}"

    @property
    def _name(self) -> str:
        return f"process {self.index} (pid {self.supervised.pid})"
