"""Windows that lie at the same event times for all keys: tumbling and sliding.

A window closes at the end of the first epoch whose watermark has reached its end, and is forgotten at the end of the
first whose watermark has reached its end and the lateness. A record that arrives in between corrects it; one that
arrives later is late. All results are given when their epoch is complete, so that the order of records within an epoch
does not show.
"""

from __future__ import annotations

from typing import Any

from framework.errors import UserError
from operators.stateful.fold import DISCARD
from operators.stateful.process import Timers
from operators.stateful.returned import refuse_none
from operators.stateful.windows.aggregation import Aggregation, result_of
from operators.stateful.windows.clock import Clock
from operators.stateful.windows.event_time import check_whole, event_time_of
from operators.stateful.windows.result import Late, Pane, Window, WindowResult
from routing.placement import Key

_STATE, _CHANGED = 0, 1


class AlignedWindows:
    """A `Process`. The state of a key is its windows, by their starts, and per epoch which of them to look at then."""

    def __init__(
        self,
        aggregation: Aggregation[Any, Any, Any],
        *,
        length: int,
        step: int,
        offset: int,
        event_time: Key,
        clock: Clock,
        lateness: int,
        early: str | None,
        name: str,
    ) -> None:
        check_lengths(length=length, step=step, offset=offset, name=name)
        check_options(lateness=lateness, early=early, name=name)
        self._aggregation = aggregation
        self._length = length
        self._step = step
        self._offset = offset
        self._event_time = event_time
        self._name = name
        self._clock = clock
        self._lateness = lateness
        self._early = early is not None

    def initial(self) -> Any:
        return {}, {}

    def on_record(self, port: int, record: Any, state: Any, timers: Timers) -> tuple[Any, list[Any]]:
        windows, due = state
        fold, length = self._aggregation.fold, self._length
        late: list[Window] = []
        event_time = self._event_time(record)
        if type(event_time) is not int:
            event_time = event_time_of(event_time, record, self._name)
        for start in self._starts(event_time):
            window = windows.get(start)
            if window is None:
                if timers.time > self._clock.reached(start + length + self._lateness):
                    late.append(Window(start, start + length))
                    continue
                window = windows[start] = [self._aggregation.initial(), False]
                self._open(start, due, timers)
            window[_STATE] = folded = fold(window[_STATE], record)
            if folded is None:
                refuse_none(fold, self._aggregation.initial, repr(record), self._name)
            if not window[_CHANGED]:
                window[_CHANGED] = True
                if self._early or timers.time > self._clock.reached(start + length):
                    _wake(start, timers.time, due, timers)
        return state if windows else DISCARD, [Late(record, tuple(late))] if late else []

    def on_timer(self, key: Any, state: Any, timers: Timers) -> tuple[Any, list[Any]]:
        windows, due = state
        time, reached = timers.time, self._clock.reached
        outputs: list[Any] = []
        for start in sorted(due.pop(time)):
            window, end = windows[start], start + self._length
            closed_at, stays = reached(end), time < reached(end + self._lateness)
            if window[_CHANGED] or time == closed_at:
                window[_CHANGED] = False
                value = result_of(self._aggregation, window[_STATE], stays=stays)
                outputs.append(WindowResult(key, Window(start, end), value, pane_of(time, closed_at)))
            if not stays:
                del windows[start]
        return state if windows else DISCARD, outputs

    def _starts(self, event_time: int) -> range:
        """The starts of the windows that an event is in."""
        last = event_time - (event_time - self._offset) % self._step
        beyond = event_time - self._length
        return range(last, beyond, -self._step)

    def _open(self, start: int, due: dict[int, set[int]], timers: Timers) -> None:
        """Set timers for when the window closes, unless that was before, and for when it is forgotten."""
        end = start + self._length
        closed_at, forgotten_at = self._clock.reached(end), self._clock.reached(end + self._lateness)
        if closed_at >= timers.time:
            _wake(start, closed_at, due, timers)
        _wake(start, forgotten_at, due, timers)


def _wake(start: int, time: int, due: dict[int, set[int]], timers: Timers) -> None:
    """Look at a window when `time` is complete. One timer does for all windows of a key."""
    if time not in due:
        due[time] = set()
        timers.set(time)
    due[time].add(start)


def pane_of(time: int, closed_at: int) -> Pane:
    """What a result at `time` is to a window that closes at `closed_at`."""
    if time < closed_at:
        return Pane.EARLY
    return Pane.CLOSED if time == closed_at else Pane.CORRECTED


def check_lengths(*, length: int, step: int, offset: int, name: str) -> None:
    """Raise for windows that cannot be."""
    check_whole(f"operator {name!r}", length=length, step=step, offset=offset)
    if not 1 <= step <= length:
        raise UserError(
            f"operator {name!r} cannot have windows of length {length} every {step}; let the length be at least 1, "
            f"and the step at least 1 and at most the length, or records in between would be lost"
        )


def check_options(*, lateness: int, early: str | None, name: str) -> None:
    """Raise for options that make no sense."""
    check_whole(f"operator {name!r}", lateness=lateness)
    if lateness < 0:
        raise UserError(f"operator {name!r} received lateness={lateness}; it is at least 0, in units of event time")
    if early not in (None, "epoch"):
        raise UserError(f"operator {name!r} received early={early!r}; it is 'epoch', for results every epoch, or None")
