"""Whether a process of a job is alive, and whether its workers step: from heartbeats, CPU time and the time.

A process beats once a second, from a thread of its own, and each beat says how often its workers have stepped. One
without a beat may be in a long call that keeps Python's interpreter lock; that uses CPU time. One that does neither is
stopped, or deadlocked: it is lost. A worker that has not stepped for long, and does not merely wait for something to
do, is named; it is lost only if the user has set a limit.

The caller says what time it is, of an `AwakeClock`: while the supervisor was stopped itself, it has heard nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from framework.membership.members import WorkerId

BEAT_S = 1.0
"""How often a process beats."""

UNSTEPPED_S = 30.0
"""How long a worker may go without a step before it is named."""

TICK_S = 0.1
"""How often a supervisor looks at the clock, about."""

TICK_S_MAX = 0.5
"""If that takes longer, it did not run meanwhile."""


@dataclass(frozen=True, slots=True)
class LivenessLimits:
    """When a process is lost."""

    heartbeat_s: float = 5.0
    """After so long without a beat and without CPU time."""
    step_s: float | None = None
    """After so long without a step of one of its workers, if that is limited."""


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """How a worker is, once a second."""

    worker: WorkerId
    steps: int
    idle: bool
    """Whether it waits for something to do, or is done."""
    stack: Sequence[str] = ()
    """Where it is, if it has not stepped since the last beat: a line for each frame, and one of its source."""


@dataclass(frozen=True, slots=True)
class Silent:
    """The process is lost: it has neither beaten nor used CPU time."""

    for_s: float


@dataclass(frozen=True, slots=True)
class Unstepped:
    """A worker has not stepped for so long."""

    worker: WorkerId
    for_s: float
    stack: Sequence[str]
    """Where it is, as of the last beat."""
    beats: bool
    """Whether its process beats; if not, one call keeps the interpreter lock, and nobody can say where it is."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """The process is lost: one of its workers has not stepped for longer than the user allows."""

    unstepped: Unstepped


@dataclass(frozen=True, slots=True)
class SteppedAgain:
    """A worker that was named has stepped after all, or has nothing to do."""

    worker: WorkerId
    after_s: float


LivenessFinding: TypeAlias = Silent | Overdue | Unstepped | SteppedAgain


@dataclass(slots=True)
class AwakeClock:
    """Counts the time for which the supervisor ran itself.

    >>> clock = AwakeClock()
    >>> [clock.advance(now_s) for now_s in (100.0, 100.25, 160.0, 160.25)]
    [0.0, 0.25, 0.35, 0.6]
    """

    time_s: float = 0.0
    _last_s: float | None = None

    def advance(self, now_s: float) -> float:
        """It is `now_s`; how much time has counted so far."""
        if self._last_s is not None:
            passed_s = now_s - self._last_s
            self.time_s += passed_s if passed_s <= TICK_S_MAX else TICK_S
        self._last_s = now_s
        return self.time_s


@dataclass(slots=True)
class _Stepping:
    steps: int
    since_s: float
    """When it stepped last, or had nothing to do."""
    stack: Sequence[str] = ()
    named: bool = False


@dataclass(slots=True)
class Liveness:
    """What is known of one process. Any thread may ask `unstepped`."""

    limits: LivenessLimits = field(default_factory=LivenessLimits)
    _now_s: float = 0.0
    _beat_s: float | None = None
    """When it has last beaten; None before the first beat, and after the last: it is starting, or exiting."""
    _busy_s: float = 0.0
    """When it was last seen to have used CPU time, or might have."""
    _cpu_s: float | None = None
    _workers: dict[WorkerId, _Stepping] = field(default_factory=dict)
    _again: list[SteppedAgain] = field(default_factory=list)

    def beat(self, now_s: float) -> None:
        """The process has beaten."""
        self._now_s = self._beat_s = now_s

    def worker_beat(self, beat: WorkerBeat, now_s: float) -> None:
        """What it said of a worker."""
        known = self._workers.get(beat.worker)
        if known is None or beat.idle or beat.steps != known.steps:
            if known is not None and known.named:
                self._again.append(SteppedAgain(beat.worker, now_s - known.since_s))
            self._workers[beat.worker] = _Stepping(beat.steps, now_s)
        else:
            known.stack = beat.stack

    def rest(self) -> None:
        """It has beaten for the last time, and exits."""
        self._beat_s = None
        self._workers.clear()

    def check(self, now_s: float, cpu_s: float | None) -> list[LivenessFinding]:
        """What is new; to be called every second or so. `cpu_s`: the CPU time of the process, or None if unknown."""
        self._now_s = now_s
        if cpu_s is None or cpu_s != self._cpu_s:
            self._cpu_s, self._busy_s = cpu_s, now_s
        if self._beat_s is None:
            return []
        silent_s = now_s - max(self._beat_s, self._busy_s)
        if silent_s >= self.limits.heartbeat_s:
            return [Silent(silent_s)]
        findings: list[LivenessFinding] = [*self._again]
        self._again.clear()
        for worker, stepping in self._workers.items():
            for_s = now_s - stepping.since_s
            if self.limits.step_s is not None and for_s >= self.limits.step_s:
                return [Overdue(self._unstepped(worker, stepping))]
            if for_s >= UNSTEPPED_S and not stepping.named:
                stepping.named = True
                findings.append(self._unstepped(worker, stepping))
        return findings

    def unstepped(self, worker: WorkerId) -> Unstepped | None:
        """For how long a worker has not stepped, if its process has told anything of it."""
        stepping = self._workers.get(worker)
        return None if stepping is None else self._unstepped(worker, stepping)

    def _unstepped(self, worker: WorkerId, stepping: _Stepping) -> Unstepped:
        beats = self._beat_s is not None and self._now_s - self._beat_s < 2 * BEAT_S
        return Unstepped(worker, self._now_s - stepping.since_s, tuple(stepping.stack), beats)
