"""A stream, kept as events."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from framework.dataflow.pact import Pipeline
from framework.progress.order import Time
from operators.capture.event import EventSink, MessagesEvent, ProgressEvent

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


def capture(stream: Stream[T], sink: EventSink, *, name: str = "capture") -> None:
    """Put the records that come to this worker into `sink`, and how far the stream has come, for `replay`.

    >>> from framework.launch.execute import example
    >>> from operators.capture.event_log import EventLog
    >>> from operators.capture.replay import replay
    >>> from operators.input.to_stream import to_stream
    >>> log = EventLog()
    >>> example(lambda scope: to_stream(scope, ["a", "b"]).capture(log))
    >>> log.events()
    [MessagesEvent(time=0, container=['a', 'b']), ProgressEvent(changes=((0, -1),))]
    >>> example(lambda scope: replay(scope, [log]).extract()).rows()
    ['a', 'b']

    Each worker needs a sink of its own: an `EventLog`, which other dataflows and threads may read while it is written,
    or an `EventWriter`, which writes a file.
    """
    builder = stream.scope.operator(name)
    input = builder.input(stream.outlet, Pipeline())
    builder.operator.on_shut_down.append(sink.close)
    frontier: tuple[Time, ...] = (stream.scope.domain.minimum,)

    def logic() -> None:
        nonlocal frontier
        for capability, container in input:
            sink.push(MessagesEvent(capability.time, container))
        before, frontier = frontier, input.frontier.frontier()
        if before != frontier:
            changes = [(time, 1) for time in frontier if time not in before]
            changes += [(time, -1) for time in before if time not in frontier]
            sink.push(ProgressEvent(tuple(changes)))

    builder.build(lambda _: logic)
