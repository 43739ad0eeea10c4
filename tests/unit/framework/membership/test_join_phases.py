"""The phases of a join, timed by a clock that a test winds."""

from __future__ import annotations

from framework.events import Event, Events, JoinPhase
from framework.membership.effects import Phase
from framework.membership.join_phases import JoinPhases
from framework.membership.members import WorkerId


def test_each_phase_lasts_until_the_next_one_begins():
    now_s = [10.0]
    events, emitted = Events(WorkerId(7), lambda: now_s[0]), list[Event]()
    events.subscribe(lambda _, __, event: emitted.append(event))
    phases = JoinPhases(events)
    for phase, lasts_s in (Phase.ASKING, 0.5), (Phase.LINKING, 0.25), (Phase.JOINED, 0.0):
        phases.enter(phase)
        now_s[0] += lasts_s
    phases.inherited_bytes = 12_345
    assert phases.durations_s() == {"turn": 0.5, "links": 0.25}
    assert emitted == [JoinPhase("turn", 0.5), JoinPhase("links", 0.25)]
    assert phases.summary() == "750.0 ms: turn 500.0, links 250.0; 12,345 bytes of progress state"
