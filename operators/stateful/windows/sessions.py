"""Windows that lie where a key's events are: sessions.

A session begins with an event and ends `gap` after its last: events less than `gap` apart are in one session, in
whatever order they arrive, and an event between two sessions makes them one. It closes at the end of the first epoch
whose watermark has reached its end, and is forgotten `lateness` of event time later.

A record is late if, when its epoch began, the watermark was past its event time by more than the lateness. Whether
there is a session that it belongs to does not matter: that could depend on which records of its own epoch come first.
What is forgotten thus ends before any record that can still come.
"""

from __future__ import annotations

from typing import Any

from framework.errors import UserError
from operators.stateful.fold import DISCARD
from operators.stateful.process import Timers
from operators.stateful.returned import refuse_none
from operators.stateful.windows.aggregation import Aggregation, result_of
from operators.stateful.windows.aligned import check_options, pane_of
from operators.stateful.windows.clock import Clock
from operators.stateful.windows.event_time import check_whole, event_time_of
from operators.stateful.windows.result import Late, Window, WindowResult
from routing.placement import Key

_START, _END, _STATE, _CHANGED = 0, 1, 2, 3


class Sessions:
    """A `Process`. The state of a key is its sessions, in no order, and the epochs that it has set timers for."""

    def __init__(
        self,
        aggregation: Aggregation[Any, Any, Any],
        *,
        gap: int,
        event_time: Key,
        clock: Clock,
        lateness: int,
        early: str | None,
        name: str,
    ) -> None:
        check_whole(f"operator {name!r}", gap=gap)
        if gap < 1:
            raise UserError(f"operator {name!r} received gap={gap}; sessions end at least 1 after their last event")
        check_options(lateness=lateness, early=early, name=name)
        self._aggregation = aggregation
        self._gap = gap
        self._event_time = event_time
        self._name = name
        self._clock = clock
        self._lateness = lateness
        self._early = early is not None

    def initial(self) -> Any:
        return [], set()

    def on_record(self, port: int, record: Any, state: Any, timers: Timers) -> tuple[Any, list[Any]]:
        sessions, awake = state
        event_time, reached = self._event_time(record), self._clock.reached
        if type(event_time) is not int:
            event_time = event_time_of(event_time, record, self._name)
        start, end = event_time, event_time + self._gap
        if timers.time > reached(event_time + self._lateness + 1):
            return state if sessions else DISCARD, [Late(record, (Window(start, end),))]
        session = self._session(sessions, start, end)
        session[_STATE] = folded = self._aggregation.fold(session[_STATE], record)
        if folded is None:
            refuse_none(self._aggregation.fold, self._aggregation.initial, repr(record), self._name)
        session[_CHANGED] = True
        closed_at = reached(session[_END])
        times = {closed_at, reached(session[_END] + self._lateness)}
        if self._early or timers.time > closed_at:
            times.add(timers.time)
        for time in times - awake:
            if time >= timers.time:
                awake.add(time)
                timers.set(time)
        return state, []

    def on_timer(self, key: Any, state: Any, timers: Timers) -> tuple[Any, list[Any]]:
        sessions, awake = state
        time, reached = timers.time, self._clock.reached
        awake.discard(time)
        outputs: list[Any] = []
        kept: list[Any] = []
        for session in sessions:
            start, end, folded, changed = session
            closed_at, stays = reached(end), time < reached(end + self._lateness)
            if time == closed_at or (changed and (self._early or time > closed_at)):
                session[_CHANGED] = False
                value = result_of(self._aggregation, folded, stays=stays)
                outputs.append(WindowResult(key, Window(start, end), value, pane_of(time, closed_at)))
            if stays:
                kept.append(session)
        return (kept, awake) if kept else DISCARD, outputs

    def _session(self, sessions: list[Any], start: int, end: int) -> Any:
        """The one session from `start` to `end`, or what it grows to with those it overlaps."""
        overlapping = [session for session in sessions if session[_START] < end and start < session[_END]]
        if not overlapping:
            sessions.append([start, end, self._aggregation.initial(), False])
            return sessions[-1]
        session, *others = overlapping
        for other in others:
            session[_STATE] = self._aggregation.merge(session[_STATE], other[_STATE])
            sessions.remove(other)
        session[_START] = min(start, *(other[_START] for other in overlapping))
        session[_END] = max(end, *(other[_END] for other in overlapping))
        return session
