"""A stream out of events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from framework.dataflow.capability import Capability
from framework.dataflow.handle import OutputHandle
from framework.dataflow.operator import OperatorLogic
from framework.dataflow.scope import Scope
from framework.progress.order import Time
from operators.capture.event import EventCursor, EventSource, MessagesEvent, ProgressEvent
from operators.errors import CaptureCorrupt
from operators.stream import Stream


def replay(scope: Scope, sources: Iterable[EventSource], *, name: str = "replay") -> Stream[Any]:
    """Send what `capture` put into `sources`, at the same times, as far as they have come.

    >>> from operators.capture.event import MessagesEvent, ProgressEvent
    >>> from operators.capture.event_log import EventLog
    >>> from framework.launch.execute import example
    >>> log = EventLog()
    >>> opens, closes = ProgressEvent(((1, 1), (0, -1))), ProgressEvent(((1, -1),))
    >>> for event in MessagesEvent(0, ["a"]), opens, MessagesEvent(1, ["b"]), closes:
    ...     log.push(event)
    >>> example(lambda scope: replay(scope, [log]).extract()).by_time()
    {0: ['a'], 1: ['b']}

    Each worker names the sources that it replays: all of a capture's sources must be replayed by some worker, however
    many workers there are now and were then. A log that is still being written is followed. A worker that joins a
    running job replays nothing.
    """
    builder = scope.operator(name)
    output, outlet = builder.output()
    replays: list[_Replay] = []

    def build(capabilities: list[Capability]) -> OperatorLogic:
        with capabilities[0] as capability:
            for source in sources if capability.held else ():
                cursor = source.open(builder.activator.activate_from_thread)
                replays.append(_Replay(cursor, capability.clone(), scope, name))
        return logic

    def logic() -> None:
        if scope.worker.congested():
            builder.activator.activate_when_clear()
            return
        unfinished = [replay.advance(output) for replay in replays]
        if any(unfinished):
            builder.activator.activate()

    def close() -> None:
        for replay in replays:
            replay.close()

    builder.build(build, capabilities=True, lends=False, notify=False)
    builder.operator.on_shut_down.append(close)
    return Stream(outlet)


class _Replay:
    """One source, and a capability for each time of its frontier."""

    def __init__(self, cursor: EventCursor, capability: Capability, scope: Scope, name: str) -> None:
        self._cursor = cursor
        self._held = {capability.time: capability}
        self._check_time = scope.domain.check_time
        self._name = name

    def advance(self, output: OutputHandle) -> bool:
        """Apply events up to the next container; tell whether there may be more at once."""
        while self._held:
            event = self._cursor.next_event()
            match event:
                case MessagesEvent(time, container):
                    with self._capability_at(time) as capability:
                        output.session(capability).give_container(container)
                    return True
                case ProgressEvent(changes):
                    self._move(changes)
                case None:
                    if self._cursor.ended:
                        self._drop_all()
                    return False
        self._cursor.close()
        return False

    def close(self) -> None:
        """Give everything up."""
        self._drop_all()
        self._cursor.close()

    def _move(self, changes: Iterable[tuple[Time, int]]) -> None:
        changes = list(changes)
        for time, change in changes:
            if change > 0:
                self._held[time] = self._capability_at(time)
        for time, change in changes:
            if change < 0:
                held = self._held.pop(time, None)
                if held is None:
                    raise CaptureCorrupt(f"operator {self._name!r} read that {time!r} left a frontier it was not in")
                held.drop()

    def _capability_at(self, time: Time) -> Capability:
        self._check_time(time)
        for held in self._held.values():
            if held.time <= time:  # type: ignore[operator]
                return held.delayed(time)
        raise CaptureCorrupt(
            f"operator {self._name!r} read an event at {time!r}, which the frontier {sorted(self._held)!r} has passed"
        )

    def _drop_all(self) -> None:
        for capability in self._held.values():
            capability.drop()
        self._held.clear()
