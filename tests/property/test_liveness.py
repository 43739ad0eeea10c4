"""Liveness against a model that remembers all it was told, and looks at the rules each time."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from framework.launch.liveness import (
    TICK_S_MAX,
    UNSTEPPED_S,
    AwakeClock,
    Liveness,
    LivenessFinding,
    LivenessLimits,
    Overdue,
    Silent,
    SteppedAgain,
    Unstepped,
    WorkerBeat,
)
from framework.membership.members import WorkerId

WORKERS = [WorkerId(0), WorkerId(1)]


@dataclass(frozen=True)
class Event:
    """Time passes; then the process beats, or not, and is looked at."""

    after_s: float
    beats: bool
    steps: tuple[bool, bool]
    idle: tuple[bool, bool]
    cpu: bool | None
    """Whether it has used CPU time since the last event; None if nobody knows."""
    rests: bool


EVENTS = st.builds(
    Event,
    after_s=st.sampled_from([0.25, 1.0, 3.0, 20.0]),
    beats=st.sampled_from([True, True, False]),
    steps=st.tuples(st.booleans(), st.booleans()),
    idle=st.tuples(st.sampled_from([False, False, True]), st.sampled_from([False, False, True])),
    cpu=st.sampled_from([True, False, False, None]),
    rests=st.sampled_from([False] * 15 + [True]),
)
LIMITS = st.builds(
    LivenessLimits, heartbeat_s=st.sampled_from([2.0, 5.0, 40.0]), step_s=st.sampled_from([None, None, 4.0, 60.0])
)


@dataclass
class Model:
    """Everything that was said, with its time."""

    limits: LivenessLimits
    beats: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    signs: dict[WorkerId, list[float]] = field(default_factory=dict)
    """When each worker was heard of first, was idle, or was seen to have stepped."""
    named: set[WorkerId] = field(default_factory=set)
    rested: bool = False

    def findings(self, now_s: float, before: dict[WorkerId, float]) -> list[LivenessFinding]:
        if not self.beats or self.rested:
            return []
        if now_s - max(self.beats[-1], self.busy[-1]) >= self.limits.heartbeat_s:
            return [Silent(now_s - max(self.beats[-1], self.busy[-1]))]
        again = [
            SteppedAgain(worker, now_s - before[worker])
            for worker in WORKERS
            if worker in self.named and self.signs[worker][-1] == now_s
        ]
        self.named -= {found.worker for found in again}
        found: list[LivenessFinding] = [*again]
        for worker, signs in self.signs.items():
            unstepped = Unstepped(worker, now_s - signs[-1], (), now_s - self.beats[-1] < 2)
            if self.limits.step_s is not None and unstepped.for_s >= self.limits.step_s:
                return [Overdue(unstepped)]
            if unstepped.for_s >= UNSTEPPED_S and worker not in self.named:
                self.named.add(worker)
                found.append(unstepped)
        return found


@given(limits=LIMITS, events=st.lists(EVENTS, max_size=60))
def test_liveness_is_what_the_rules_say_of_all_that_was_told(limits: LivenessLimits, events: list[Event]):
    liveness, model = Liveness(limits), Model(limits, busy=[0.0])
    now_s, cpu_s, steps = 0.0, 1.0, dict.fromkeys(WORKERS, 0)
    for index, event in enumerate(events):
        now_s += event.after_s
        before = {worker: signs[-1] for worker, signs in model.signs.items()}
        if event.beats and not model.rested:
            liveness.beat(now_s)
            model.beats.append(now_s)
            for worker, stepped, idle in zip(WORKERS, event.steps, event.idle, strict=True):
                steps[worker] += stepped
                liveness.worker_beat(WorkerBeat(worker, steps[worker], idle), now_s)
                if stepped or idle or worker not in model.signs:
                    model.signs.setdefault(worker, []).append(now_s)
        if event.rests:
            liveness.rest()
            model.rested = True
        cpu_s += bool(event.cpu)
        if event.cpu or event.cpu is None or index == 0 or events[index - 1].cpu is None:
            model.busy.append(now_s)
        expected = model.findings(now_s, before)
        found = liveness.check(now_s, None if event.cpu is None else cpu_s)
        assert found == expected
        if any(isinstance(one, Silent | Overdue) for one in found):
            return


@given(pauses=st.lists(st.tuples(st.integers(0, 40), st.floats(0, 10_000)), max_size=8))
def test_nobody_is_lost_while_all_are_stopped_together(pauses: list[tuple[int, float]]):
    """A child beats once a second of the time that it runs, and the supervisor looks ten times a second."""
    stopped = dict(pauses)
    liveness, awake = Liveness(LivenessLimits(heartbeat_s=2.0)), AwakeClock()
    now_s = 0.0
    for tick in range(50):
        now_s += 0.1 + stopped.get(tick, 0.0)
        time_s = awake.advance(now_s)
        if tick % 10 == 0:
            liveness.beat(time_s)
        assert liveness.check(time_s, 1.0) == []


@given(st.lists(st.floats(0.001, 100), min_size=1, max_size=50))
def test_time_for_which_the_supervisor_did_not_run_does_not_count(passing: list[float]):
    clock, now_s = AwakeClock(), 50.0
    clock.advance(now_s)
    for after_s in passing:
        before_s = clock.time_s
        now_s += after_s
        counted_s = clock.advance(now_s) - before_s
        assert 0 < counted_s <= TICK_S_MAX


def test_a_worker_that_is_named_shows_where_it_was_last_seen():
    liveness = Liveness()
    for second in range(40):
        if second < 20:
            liveness.beat(second)
            liveness.worker_beat(
                WorkerBeat(WORKERS[0], 7, idle=False, stack=["job.py:3, in work"] if second else ()), second
            )
        found = liveness.check(second, float(second))
        assert found == ([Unstepped(WORKERS[0], 30, ("job.py:3, in work",), beats=False)] if second == 30 else [])
    liveness.beat(40)
    liveness.worker_beat(WorkerBeat(WORKERS[0], 8, idle=False), 40)
    assert liveness.check(40, 40.0) == [SteppedAgain(WORKERS[0], 40)]
    assert liveness.unstepped(WORKERS[0]) == Unstepped(WORKERS[0], 0, (), beats=True)
    assert liveness.unstepped(WORKERS[1]) is None
