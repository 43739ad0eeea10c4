"""Events: what a captured stream is made of."""

from __future__ import annotations

import pytest

from framework.launch.execute import example
from operators import EventLog, iterator_source
from operators.capture.event import CapturedEvent, MessagesEvent, ProgressEvent
from tests.unit.operators.cluster import SEEDS, numbers, run


def check(events: list[CapturedEvent]) -> None:
    """No record at a time that the frontier has passed, and a frontier without times at the end."""
    frontier = {0}
    for event in events:
        match event:
            case MessagesEvent(time, container):
                assert any(earlier <= time for earlier in frontier), (time, frontier)  # type: ignore[operator]
                assert len(container)
            case ProgressEvent(changes):
                for time, change in changes:
                    (frontier.add if change > 0 else frontier.remove)(time)  # type: ignore[arg-type]
    assert frontier == set()


def test_a_stream_as_events():
    log = EventLog()
    example(lambda scope: iterator_source(scope, [(2, ["a"]), (2, ["b"]), (3, ["c"])]).capture(log))
    events = log.events()
    check(events)
    assert [event for event in events if isinstance(event, MessagesEvent)] == [
        MessagesEvent(2, ["a"]),
        MessagesEvent(2, ["b"]),
        MessagesEvent(3, ["c"]),
    ]
    assert [event for event in events if isinstance(event, ProgressEvent)] == [
        ProgressEvent(((2, 1), (0, -1))),
        ProgressEvent(((3, 1), (2, -1))),
        ProgressEvent(((3, -1),)),
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    logs = [EventLog() for _ in range(3)]
    run(
        lambda scope: (
            iterator_source(scope, numbers(scope.worker.index)).exchange(lambda n: n).capture(logs[scope.worker.index])
        ),
        seed=seed,
    )
    for log in logs:
        check(log.events())
