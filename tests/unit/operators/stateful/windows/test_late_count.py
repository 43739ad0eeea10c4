"""How many records came too late for their windows: counted for `hailer status`, and said in the log."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from framework.launch.execute import execute
from operators import EpochClock, Input, Probe, Worker, counting
from operators.control.worker_messages import LateRecords
from operators.control.worker_status import OperatorMeter, status

Epochs = list[list[tuple[str, int]]]


def of_key(event: Any) -> Any:
    return event[0]


def at(event: Any) -> Any:
    return event[1]


def on_rows(stream: Any, kind: str, **options: Any) -> Any:
    options |= {"key": of_key, "event_time": at, "name": "hourly"}
    return getattr(stream, f"{kind}_window")(counting(), **options).results


def on_columns(stream: Any, kind: str, **options: Any) -> Any:
    from operators.columns import aggregates

    columns = stream.to_columns({"key": str, "at": int})
    options |= {"key": "key", "event_time": "at", "name": "hourly"}
    return getattr(columns, f"{kind}_window")({"n": aggregates.count()}, **options).results


def late_of(window: Any, kind: str, epochs: Epochs, **options: Any) -> list[LateRecords]:
    """What a worker says of itself after some epochs of 10."""

    def main(worker: Worker) -> list[LateRecords]:
        events, probe = Input[tuple[str, int]](), Probe()
        with worker.dataflow() as scope:
            window(events.stream(scope), kind, clock=EpochClock(10), **options).probe(probe)
        for epoch, rows in enumerate(epochs):
            events.send_batch(rows)
            events.advance_to(epoch + 1)
        worker.step_while(lambda: probe.less_than(len(epochs)))
        return list(status(worker, OperatorMeter.start(worker, lambda: None)).late)

    [late] = execute(main)
    return late


@pytest.mark.parametrize(
    ("window", "kind", "options", "path"),
    [
        (on_rows, "tumbling", {"length": 10}, "0.2"),
        (on_rows, "sliding", {"length": 10, "step": 5}, "0.2"),
        (on_rows, "session", {"gap": 1}, "0.2"),
        (on_columns, "tumbling", {"length": 10}, "0.3"),
        (on_columns, "sliding", {"length": 10, "step": 5}, "0.3"),
    ],
)
def test_a_record_counts_once_however_many_windows_it_missed(window: Any, kind: str, options: Any, path: str):
    epochs: Epochs = [[("a", 1)], [("a", 12), ("a", 3)], [("a", 2), ("a", 25), ("b", 3)]]
    assert late_of(window, kind, epochs, **options) == [LateRecords(path, "hourly", late=3, records=6)]


@pytest.mark.parametrize("window", [on_rows, on_columns])
@pytest.mark.parametrize(("late", "said"), [(51, 1), (50, 0)])
def test_the_log_says_once_that_most_are_late(window: Any, late: int, said: int, caplog: pytest.LogCaptureFixture):
    epochs: Epochs = [[], [("a", 1)] * late + [("a", 10)] * (100 - late), [("a", 1)] * 10 * said]
    with caplog.at_level(logging.INFO):
        late_of(window, "tumbling", epochs, length=10)
    messages = [record.getMessage() for record in caplog.records if "late" in record.getMessage()]
    assert messages == said * [
        "operator 'hourly': 51 of 100 records came too late for their windows; see that the clock begins where their "
        "event times do, and has the same unit"
    ]
