"""`process`: logic of one's own with state and timers per key."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest

from framework.errors import GraphError, OperatorFailed, TimeNotCovered
from framework.launch.execute import example
from operators import DISCARD, BinOptions, Process, Timers, empty, iterator_source, process, to_stream
from operators.errors import FoldMisreturned
from operators.stateful.process import ProcessLogic
from routing.bins import BinId
from routing.hashing import UnsupportedKey
from tests.unit.operators.moving import Outcome, Rows, by_epoch, run_moving

SEEDS = range(24)
EPOCHS = 8


class Alarm:
    """Counts (key, delay) records and tells the count, with the ports of the records, when the delay is over."""

    def initial(self) -> Any:
        return []

    def on_record(self, port: int, record: Any, state: Any, timers: Timers) -> tuple[Any, list[Any]]:
        key, delay = record
        timers.set(timers.time + delay)
        return [*state, port], [("record", key)]

    def on_timer(self, key: Any, state: Any, timers: Timers) -> tuple[Any, list[Any]]:
        if len(state) >= 3:
            return DISCARD, [("over", key, tuple(sorted(state)))]
        return state, [("timer", key, tuple(sorted(state)))]


def of_key(record: Any) -> Any:
    return record[0]


def alarms(*streams: list[tuple[int, Rows]], logic: Process | None = None) -> dict[Any, Rows]:
    def build(scope):
        placed = [(iterator_source(scope, stream), of_key) for stream in streams]
        return process(placed, logic or Alarm()).extract()

    outputs: dict[Any, Rows] = example(build).by_time()
    return outputs


def test_a_timer_goes_off_once_per_key_and_time_after_the_records_of_that_time():
    assert alarms([(0, [("a", 1), ("a", 1)]), (1, [("b", 0)])]) == {
        0: [("record", "a"), ("record", "a")],
        1: [("record", "b"), ("timer", "a", (0, 0)), ("timer", "b", (0,))],
    }


def test_a_key_that_was_discarded_is_not_called_and_begins_again():
    assert alarms([(0, [("a", 1), ("a", 3), ("a", 4)]), (4, [("a", 0)])]) == {
        0: [("record", "a")] * 3,
        1: [("over", "a", (0, 0, 0))],
        4: [("record", "a"), ("timer", "a", (0,))],
    }


def test_streams_share_the_states_of_equal_keys():
    assert alarms([(0, [("a", 0)])], [(0, [("a", 0)])])[0][-1] == ("timer", "a", (0, 1))


def test_a_timer_can_set_another_one():
    class Countdown:
        def initial(self):
            return 3

        def on_record(self, port, record, state, timers):
            timers.set(timers.time)
            return state, []

        def on_timer(self, key, state, timers):
            if state == 0:
                return DISCARD, ["lift-off"]
            timers.set(timers.time + 2)
            return state - 1, [state]

    assert alarms([(1, [("a", 0)])], logic=Countdown()) == {1: [3], 3: [2], 5: [1], 7: ["lift-off"]}


def test_a_timer_that_is_set_often_is_kept_once():
    logic = ProcessLogic(Alarm(), [of_key], BinOptions(1), "process")
    logic.apply(0, 0, [("a", 5), ("b", 5)] * 1000)
    assert sorted(logic.timers.extract(BinId(0))) == [(5, "a"), (5, "b")]


def test_a_timer_for_the_past():
    with pytest.raises(OperatorFailed) as caught:
        alarms([(4, [("a", -1)])])
    assert isinstance(caught.value.__cause__, TimeNotCovered)
    assert str(caught.value.__cause__) == ("a timer was set for 3 at time 4; set it for this time or a later one")


class Misreturning:
    """Returns what it is given."""

    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def initial(self):
        return 0

    def on_record(self, port, record, state, timers):
        timers.set(timers.time)
        return (state, []) if record[1] else self.returned

    def on_timer(self, key, state, timers):
        return self.returned


def line_of(function: Any) -> str:
    return f"{function.__name__} ({__file__}:{function.__code__.co_firstlineno})"


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize(
    ("returned", "complaint"),
    [
        (None, "to return (state, outputs), with outputs a list; it did not for {}, and Python said: cannot unpack"),
        ((0, "tea"), "gave 'tea' as outputs for {}; to send that as one output, return ['tea']"),
        ((0, ("tea", 1)), "gave ('tea', 1) as outputs for {}; to send that as one output, return [('tea', 1)]"),
        ((0, None), "gave None as outputs for {}; return [] if there are none"),
    ],
)
def test_logic_of_the_wrong_shape(returned: Any, complaint: str, stays: bool):
    logic = Misreturning(returned)
    with pytest.raises(OperatorFailed) as caught:
        alarms([(0, [("a", stays)])], logic=logic)
    assert isinstance(caught.value.__cause__, FoldMisreturned)
    said = str(caught.value.__cause__)
    assert said.startswith("operator 'process' expects ")
    assert line_of(logic.on_timer if stays else logic.on_record) in said
    assert complaint.format("'a'" if stays else "('a', False)") in said


def test_a_state_that_was_sent_does_not_change():
    class Collect:
        def initial(self):
            return []

        def on_record(self, port, record, state, timers):
            timers.set(timers.time)
            state.append(record[1])
            return state, [state]

        def on_timer(self, key, state, timers):
            state.append("timer")
            return state, [state]

    assert alarms([(0, [("a", 1), ("a", 2)]), (1, [("a", 3)])], logic=Collect()) == {
        0: [[1], [1, 2], [1, 2, "timer"]],
        1: [[1, 2, "timer", 3], [1, 2, "timer", 3, "timer"]],
    }


@pytest.mark.parametrize("key", [frozenset(), []])
def test_a_key_without_a_stable_hash(key: Any):
    with pytest.raises(OperatorFailed) as caught:
        alarms([(0, [(key, 1)])])
    assert isinstance(caught.value.__cause__, UnsupportedKey)


@pytest.mark.parametrize("records", [[()], [("a", 1), ()]])
def test_a_function_of_keys_that_fails(records: Rows):
    with pytest.raises(OperatorFailed) as caught:
        alarms([(0, records)])
    assert isinstance(caught.value.__cause__, IndexError)
    assert caught.value.__cause__.__notes__ == ["the record was ()"]


@pytest.mark.parametrize("on_bins", [False, True])
def test_iterations_have_no_timers(on_bins: bool):
    def build(scope):
        control = empty(scope) if on_bins else None
        with scope.iterative() as inner:
            process([(to_stream(scope, [("a", 1)]).enter(inner), of_key)], Alarm(), control=control)

    with pytest.raises(GraphError, match=r"operator 'process' .* outermost scope"):
        example(build)


def reference(feed: list[list[Rows]]) -> Outcome:
    """Epoch by epoch: records, then timers."""
    states: dict[str, list[int]] = {}
    timers: dict[int, set[str]] = {}
    outputs: list[tuple[int, Any]] = []
    for epoch in range(EPOCHS + 10):
        for port, by_epoch_ in enumerate(feed):
            for key, delay in by_epoch_[epoch] if epoch < EPOCHS else ():
                states.setdefault(key, []).append(port)
                timers.setdefault(epoch + delay, set()).add(key)
                outputs.append((epoch, ("record", key)))
        for key in timers.get(epoch, ()):
            if key in states:
                over = len(states[key]) >= 3
                outputs.append((epoch, ("over" if over else "timer", key, tuple(sorted(states[key])))))
                if over:
                    del states[key]
    return by_epoch(outputs)


@cache
def simulate(seed: int) -> tuple[Outcome, Outcome, Outcome, int]:
    random = Random(seed)
    feed: list[list[Rows]] = [
        [
            [(random.choice("abcde"), random.choice([0, 0, 1, 2, 5])) for _ in range(random.randrange(4))]
            for _ in range(8)
        ]
        for _ in range(2)
    ]

    def build(streams, options):
        return [process([(stream, of_key) for stream in streams], Alarm(), **options)]

    moved = run_moving(build, feed, seed=seed)
    return moved.on_bins, moved.by_hash, reference(feed), moved.bins_shipped


@pytest.mark.parametrize("seed", SEEDS)
def test_while_bins_move_it_equals_a_loop_over_the_epochs(seed: int):
    on_bins, by_hash, expected, _ = simulate(seed)
    assert by_hash == expected
    assert on_bins == expected


def test_the_simulation_moves_bins():
    assert sum(shipped for *_, shipped in (simulate(seed) for seed in SEEDS)) > 100
