"""`tumbling_window`: borders, lateness, early results, and what is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pytest

from framework.dataflow.scope import Scope
from framework.errors import OperatorFailed, UserError
from framework.launch.execute import example, execute
from operators import (
    Aggregation,
    BinOptions,
    EpochClock,
    Input,
    Late,
    Pane,
    Probe,
    WatermarkClock,
    Window,
    Windowed,
    WindowResult,
    WithinEventTime,
    collecting,
    counting,
    iterator_source,
    reducing,
    to_stream,
)
from operators.errors import FoldMisreturned
from routing.bins import Bins
from routing.state.memory import MemoryStore
from tests.unit.operators.cluster import run
from tests.unit.operators.moving import WatchedStore


def of_key(event: Any) -> Any:
    return event[0]


def at(event: Any) -> int:
    time: int = event[1]
    return time


def amount(event: Any) -> int:
    value: int = event[2]
    return value


def tumble(epochs: list[list[tuple[str, int]]], **options: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Count in windows of 10, with epochs of 10, on one worker: by epoch what is found, and what is late."""

    def build(scope):
        windowed: Windowed[str, Any, int] = iterator_source(scope, enumerate(epochs)).tumbling_window(
            counting(), **{"length": 10, "key": of_key, "event_time": at, "clock": EpochClock(10), **options}
        )
        shown = windowed.results.map(lambda result: (result.key, result.window.start, result.value, result.pane.value))
        return shown.extract(), windowed.late.extract()

    results, late = example(build)
    return results.by_time(), late.by_time()


def test_an_event_at_the_end_of_a_window_is_in_the_next_one():
    assert tumble([[("a", 0), ("a", 9), ("a", 10)]]) == (
        {0: [("a", 0, 2, "closed")], 1: [("a", 10, 1, "closed")]},
        {},
    )


def test_negative_event_times_and_an_offset():
    events = [("a", -11), ("a", -10), ("a", -1), ("a", 2), ("a", 3)]
    assert tumble([events])[0] == {
        0: [("a", -20, 1, "closed"), ("a", -10, 2, "closed"), ("a", 0, 2, "closed")],
    }
    shifted = tumble([events], offset=3)[0]
    assert {epoch: sorted(rows) for epoch, rows in shifted.items()} == {
        0: [("a", -17, 2, "closed"), ("a", -7, 2, "closed")],
        1: [("a", 3, 1, "closed")],
    }
    assert tumble([events], offset=-17)[0].keys() == shifted.keys()


def test_a_window_waits_for_the_watermark_to_reach_its_end():
    assert tumble([[("a", 5)]], clock=EpochClock(10, delay=1))[0] == {1: [("a", 0, 1, "closed")]}
    assert tumble([[("a", 5)]], clock=EpochClock(9))[0] == {1: [("a", 0, 1, "closed")]}
    assert tumble([[("a", 5)]], clock=EpochClock(1))[0] == {9: [("a", 0, 1, "closed")]}
    assert tumble([[("a", 5)]], clock=EpochClock(10, start=1))[0] == {0: [("a", 0, 1, "closed")]}
    assert tumble([[("a", 5)]], clock=WatermarkClock(lambda epoch: 3 * epoch - 2))[0] == {4: [("a", 0, 1, "closed")]}


def test_a_record_of_the_closing_epoch_counts_and_the_next_one_is_late():
    assert tumble([[], [("a", 5), ("a", 10)], [("a", 19)]]) == (
        {1: [("a", 10, 1, "closed")]},
        {1: [Late(("a", 5), (Window(0, 10),))], 2: [Late(("a", 19), (Window(10, 20),))]},
    )


def test_lateness_corrects_and_is_over_exactly_when_the_watermark_has_gone_that_far():
    """Closed at epoch 0, with 20 of lateness forgotten at the end of epoch 2."""
    epochs = [[("a", 1)], [("a", 2), ("a", 3)], [("a", 4)], [("a", 5)]]
    assert tumble(epochs, lateness=20) == (
        {0: [("a", 0, 1, "closed")], 1: [("a", 0, 3, "corrected")], 2: [("a", 0, 4, "corrected")]},
        {3: [Late(("a", 5), (Window(0, 10),))]},
    )
    assert tumble(epochs, lateness=21)[0][3] == [("a", 0, 5, "corrected")]
    assert tumble(epochs, lateness=10)[1].keys() == {2, 3}
    assert tumble(epochs, lateness=9)[1].keys() == {2, 3}


def test_a_window_that_late_records_open_was_not_there_to_close():
    assert tumble([[], [("a", 1)], [("a", 1)]], lateness=20)[0] == {
        1: [("a", 0, 1, "corrected")],
        2: [("a", 0, 2, "corrected")],
    }


def test_early_results_come_in_epochs_that_change_the_window_and_at_its_close():
    epochs = [[("a", 1), ("a", 2)], [], [("a", 3)], []]
    assert tumble(epochs, clock=EpochClock(2), early="epoch")[0] == {
        0: [("a", 0, 2, "early")],
        2: [("a", 0, 3, "early")],
        4: [("a", 0, 3, "closed")],
    }


def test_a_late_record_for_a_key_that_was_forgotten_leaves_nothing_behind():
    stores: list[WatchedStore] = []

    def store(bins: Bins) -> WatchedStore:
        stores.append(WatchedStore(bins))
        return stores[0]

    tumble([[], [], [("a", 1)]], bins=BinOptions(store=store))
    assert stores[0].keys_left == 0


def test_state_is_kept_until_lateness_is_over_and_not_longer():
    stores: list[MemoryStore] = []
    kept: list[list[int]] = []

    def store(bins: Bins) -> MemoryStore:
        stores.append(MemoryStore(bins))
        return stores[0]

    def main(worker):
        events, probe = Input[Any](), Probe()
        with worker.dataflow() as scope:
            windows = events.stream(scope).tumbling_window(
                counting(),
                length=10,
                key=of_key,
                event_time=at,
                clock=EpochClock(5),
                lateness=10,
                bins=BinOptions(1, store),
            )
            windows.results.probe(probe)
        events.send_batch([("a", 0), ("b", 9), ("b", 10)])
        for epoch in range(8):
            events.advance_to(epoch + 1)
            for _ in range(4):
                worker.step()
            kept.append(list(stores[0].bins().values()))

    execute(main)
    # [0, 10) is over when the watermark is 20, at the end of epoch 3; [10, 20) when it is 30, at the end of epoch 5.
    assert kept == [[2], [2], [2], [1], [1], [], [], []]


def test_results_are_put_together_by_any_aggregation():
    mean = Aggregation[tuple[str, int], tuple[int, int], float](
        initial=lambda: (0, 0),
        fold=lambda state, event: (state[0] + event[1], state[1] + 1),
        merge=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        finish=lambda state: state[0] / state[1],
    )

    def build(scope):
        events = to_stream(scope, [("a", 1), ("a", 4), ("b", 6)])
        options: dict[str, Any] = {"length": 10, "key": of_key, "event_time": at, "clock": EpochClock(10)}
        means = events.tumbling_window(mean, **options).results.extract()
        latest = events.tumbling_window(reducing(max, of=at), **options).results.extract()
        return means, latest

    means, latest = example(build)
    assert [(result.key, result.value) for result in means.rows()] == [("a", 2.5), ("b", 6.0)]
    assert [(result.key, result.value) for result in latest.rows()] == [("a", 4), ("b", 6)]


def test_results_travel_between_workers():
    """They are of types that the codec knows."""

    def build(scope):
        source = [("a", 1)] if scope.worker.index == 0 else []
        results, late = iterator_source(scope, [(0, source), (1, source)]).tumbling_window(
            counting(), length=10, key=of_key, event_time=at, clock=EpochClock(10)
        )
        return results.broadcast().extract(), late.broadcast().extract()

    for results, late in run(build, seed=0, workers=2):
        assert results.rows() == [WindowResult("a", Window(0, 10), 1, Pane.CLOSED)]
        assert late.rows() == [Late(("a", 1), (Window(0, 10),))]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"length": 0}, "cannot have windows of length 0"),
        ({"lateness": -1}, "received lateness=-1"),
        ({"early": "record"}, "received early='record'"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], says: str):
    with pytest.raises(UserError, match=f"operator 'tumbling_window' .*{says}"):
        tumble([], **options)


@dataclass
class Found:
    words: list[str]


def appended(state: list[Any], event: Any) -> list[Any]:
    state.append(event[2])
    return state


@pytest.mark.parametrize(
    "finish",
    [lambda state: state, lambda state: ("found", state), lambda state: {"in": {"it": state}}, Found],
    ids=["the state itself", "within a tuple", "deep within", "within an object"],
)
def test_a_result_that_is_out_does_not_change(finish: Any):
    """Whoever collects the results in the same process sees what another process would."""
    epochs = [[("a", 1, "a")], [("a", 2, "b")], [("a", 5, "c")], [("a", 3, "d")]]
    aggregation = Aggregation(list, appended, lambda a, b: a + b, finish)

    def build(scope):
        results, _ = iterator_source(scope, enumerate(epochs)).tumbling_window(
            aggregation, length=5, key=of_key, event_time=at, clock=EpochClock(2), lateness=10, early="epoch"
        )
        return results.filter(lambda result: result.window.start == 0).map(lambda result: result.value).extract()

    assert example(build).by_time() == {
        0: [finish(["a"])],
        1: [finish(["a", "b"])],
        2: [finish(["a", "b"])],
        3: [finish(["a", "b", "d"])],
    }


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({"order": at}, [[("a", 1, 7), ("a", 3, 5)], [("a", 1, 7), ("a", 2, 6), ("a", 3, 5)]]),
        ({"of": amount, "order": at}, [[7, 5], [7, 6, 5]]),
        ({"of": amount}, [[5, 7], [5, 7, 6]]),
    ],
)
def test_collecting(options: Any, values: Any):
    epochs = [[("a", 3, 5), ("a", 1, 7)], [("a", 2, 6)]]

    def build(scope):
        results, _ = iterator_source(scope, enumerate(epochs)).tumbling_window(
            collecting(**options), length=10, key=of_key, event_time=at, clock=EpochClock(10), lateness=10
        )
        return results.map(lambda result: result.value).extract()

    assert example(build).rows() == values


@pytest.mark.parametrize("later", [[], [("a", 2, "b")]])
def test_a_fold_that_returns_nothing(later: Any):
    aggregation: Any = Aggregation(list, lambda some, event: some.append(event), lambda a, b: a + b)
    with pytest.raises(OperatorFailed) as caught:
        example(
            lambda scope: (
                to_stream(scope, [("a", 1, "a"), *later])
                .tumbling_window(aggregation, length=5, key=of_key, event_time=at, clock=EpochClock(2), name="five")
                .results.extract()
            )
        )
    assert isinstance(caught.value.__cause__, FoldMisreturned)
    assert f"{__file__}:{aggregation.fold.__code__.co_firstlineno}) returned None for ('a', 1, 'a')" in str(
        caught.value.__cause__
    )


@pytest.mark.parametrize("given", [3.5, datetime(2026, 1, 1), timedelta(1), None])
def test_an_event_time_that_is_no_integer(given: Any):
    def windows(stream: Any) -> list[Any]:
        options: dict[str, Any] = {"key": of_key, "event_time": lambda event: event[1], "clock": EpochClock(2)}
        within = WithinEventTime(1, at, at, EpochClock(2))
        return [
            stream.tumbling_window(counting(), length=5, **options, name="found").results,
            stream.session_window(counting(), gap=5, **options, name="found").results,
            stream.stateful_join(stream, key=of_key, other_key=of_key, within=within, name="found"),
        ]

    def nth(number: int, scope: Scope) -> Any:
        return windows(to_stream(scope, [("a", given)]))[number].extract()

    for number in range(3):
        with pytest.raises(OperatorFailed) as caught:
            example(partial(nth, number))
        assert str(caught.value.__cause__) == (
            f"operator 'found': event_time(record) gave {given!r} for {('a', given)!r}; an event time is an integer, "
            f"such as milliseconds"
        )


def test_an_event_time_of_another_integral_type():
    events: list[Any] = [("a", np.int64(3)), ("a", True)]
    [[window]] = tumble([events])[0].values()
    assert window == ("a", 0, 2, "closed")


@pytest.mark.parametrize(
    ("what", "make"),
    [
        ("length=datetime.timedelta(days=1)", lambda s, o: s.tumbling_window(counting(), length=timedelta(1), **o)),
        ("step=0.5", lambda s, o: s.sliding_window(counting(), length=1, step=0.5, **o)),
        ("offset=0.5", lambda s, o: s.tumbling_window(counting(), length=1, offset=0.5, **o)),
        ("lateness=0.5", lambda s, o: s.tumbling_window(counting(), length=1, lateness=0.5, **o)),
        ("gap=0.5", lambda s, o: s.session_window(counting(), gap=0.5, **o)),
        ("span=datetime.timedelta(days=1)", lambda s, o: EpochClock(timedelta(1))),  # type: ignore[arg-type]
        (
            "interval=0.5",
            lambda s, o: s.stateful_join(
                s,
                key=of_key,
                other_key=of_key,
                within=WithinEventTime(0.5, at, at, EpochClock(1)),  # type: ignore[arg-type]
            ),
        ),
    ],
)
def test_a_length_that_is_no_integer(what: str, make: Any):
    options = {"key": of_key, "event_time": at, "clock": EpochClock(1)}
    with pytest.raises(UserError) as caught:
        example(lambda scope: make(to_stream(scope, []), options))
    assert str(caught.value).endswith(
        f" received {what}; it is a length of event time, an integer, such as milliseconds"
    )
