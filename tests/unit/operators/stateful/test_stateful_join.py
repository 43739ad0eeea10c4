"""`stateful_join`: each pair once, with its later half; what has no match; what is kept and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import pytest

from framework.errors import UserError
from framework.launch.execute import example, execute
from operators import BinOptions, EpochClock, Input, Probe, WatermarkClock, WithinEventTime, iterator_source
from routing.bins import Bins
from routing.state.memory import MemoryStore
from tests.unit.operators.moving import Outcome, Rows, by_epoch, run_moving
from tests.unit.operators.window_reference import Setting, random_events, random_setting

SEEDS = range(36)
EPOCHS = 8


def of_key(event: Any) -> Any:
    return event[0]


def at(event: Any) -> int:
    time: int = event[1]
    return time


def join(left: list[Rows], right: list[Rows], **options: Any) -> dict[Any, Any]:
    """Join words by their first letters, on one worker."""

    def build(scope):
        return (
            iterator_source(scope, enumerate(left))
            .stateful_join(iterator_source(scope, enumerate(right)), key=of_key, other_key=of_key, **options)
            .extract()
        )

    return {time: sorted(rows, key=repr) for time, rows in example(build).by_time().items()}


def test_all_pairs_of_a_key_once_at_the_later_epoch():
    assert join([["a1", "b1"], [], ["a2"]], [["a3"], ["a4", "c4"]]) == {
        0: [("a1", "a3")],
        1: [("a1", "a4")],
        2: [("a2", "a3"), ("a2", "a4")],
    }


def test_equal_records_are_as_many_pairs():
    assert join([["a", "a"]], [["a", "a"]]) == {0: [("a", "a")] * 4}


def test_within_no_epochs_pairs_records_of_one_epoch():
    assert join([["a1"], ["a2"]], [["a3"], ["a4"]], within=0) == {0: [("a1", "a3")], 1: [("a2", "a4")]}


@pytest.mark.parametrize("distance", range(5))
@pytest.mark.parametrize("swapped", [False, True])
def test_within_some_epochs_either_way_round(distance: int, swapped: bool):
    early, late = [["a1"]], [*([[]] * distance), ["a2"]]
    if swapped:
        assert join(late, early, within=2) == ({distance: [("a2", "a1")]} if distance <= 2 else {})
    else:
        assert join(early, late, within=2) == ({distance: [("a1", "a2")]} if distance <= 2 else {})


def test_left_tells_of_a_record_without_a_match_when_none_can_come_any_more():
    assert join([["a1", "b1"], ["a2"]], [[], ["b3"], [], ["a4"]], kind="left", within=2) == {
        1: [("b1", "b3")],
        2: [("a1", None)],
        3: [("a2", "a4")],
    }


def test_left_takes_a_match_from_before():
    assert join([[], ["a1"]], [["a2"]], kind="left", within=1) == {1: [("a1", "a2")]}


def test_left_says_nothing_of_the_others_without_a_match():
    assert join([], [["a1"]], kind="left", within=1) == {}


def in_event_time(interval: int) -> WithinEventTime:
    return WithinEventTime(interval, at, at, EpochClock(10))


def test_event_times_exactly_the_interval_apart_match():
    left, right = [[("a", 20)]], [[("a", 14), ("a", 15), ("a", 25), ("a", 26)]]
    assert join(left, right, within=in_event_time(5)) == {0: [(("a", 20), ("a", 15)), (("a", 20), ("a", 25))]}


def test_in_event_time_a_record_waits_for_the_watermark():
    """Matches of 4 are up to 9, and come by the end of epoch 0; those of 5 are up to 10, and come by that of 1."""
    assert join([[("a", 4), ("b", 5)]], [[]], kind="left", within=in_event_time(5)) == {
        0: [(("a", 4), None)],
        1: [(("b", 5), None)],
    }


def test_in_event_time_a_late_record_matches_what_is_still_kept():
    left, right = [[("a", 5)], [], [("a", 5)]], [[], [("a", 1)], [("a", 1)], [("a", 1)]]
    assert join(left, right, kind="left", within=in_event_time(5)) == {
        1: [(("a", 5), ("a", 1))],
        2: [(("a", 5), ("a", 1))],
    }


def test_records_are_kept_as_long_as_they_can_match():
    stores: list[MemoryStore] = []
    kept: list[list[int]] = []

    def store(bins: Bins) -> MemoryStore:
        stores.append(MemoryStore(bins))
        return stores[0]

    def main(worker):
        left, right, probe = Input[str](), Input[str](), Probe()
        with worker.dataflow() as scope:
            left.stream(scope).stateful_join(
                right.stream(scope), key=str, other_key=str, within=2, bins=BinOptions(1, store)
            ).probe(probe)
        left.send("a")
        right.send("b")
        for epoch in range(5):
            if epoch == 1:
                right.send("a")
            left.advance_to(epoch + 1)
            right.advance_to(epoch + 1)
            for _ in range(4):
                worker.step()
            kept.append(list(stores[0].bins().values()))

    execute(main)
    # Of "a" the left one is forgotten at the end of epoch 2, the right one at that of epoch 3.
    assert kept == [[2], [2], [1], [], []]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kind": "left"}, "is a left join without `within`"),
        ({"kind": "outer"}, "received kind='outer'"),
        ({"within": -1}, "received within=-1"),
        ({"within": in_event_time(-1)}, "received within=WithinEventTime"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], says: str):
    with pytest.raises(UserError, match=f"operator 'stateful_join' {says}"):
        join([], [], **options)


def reference(feed: list[list[Rows]], *, left: bool, within: int | None, setting: Setting | None) -> Outcome:
    """All pairs of all records, by definition."""

    def until(epoch: int, event: Any) -> int:
        """The last epoch in which a record can find a match."""
        if within is None:
            return 10**9
        return epoch + within if setting is None else max(epoch, setting.reached(at(event) + within + 1))

    def pairs() -> Iterator[tuple[int, Any]]:
        ours, others = ([(e, event) for e, rows in enumerate(side) for event in rows] for side in feed)
        for epoch, event in ours:
            alone = True
            for other_epoch, other in others:
                distance = abs(epoch - other_epoch) if setting is None else abs(at(event) - at(other))
                met = max(epoch, other_epoch) <= min(until(epoch, event), until(other_epoch, other))
                if of_key(event) == of_key(other) and met and (within is None or distance <= within):
                    alone = False
                    yield max(epoch, other_epoch), (event, other)
            if alone and left:
                yield until(epoch, event), (event, None)

    return by_epoch(list(pairs()))


@cache
def simulate(seed: int) -> tuple[Outcome, Outcome, Outcome, int | None, int]:
    random = Random(seed)
    setting = random_setting(random, EPOCHS)
    feed = [random_events(random, setting, EPOCHS) for _ in range(2)]
    left = random.random() < 0.5
    interval = random.choice([0, 1, 3, 12] if left else [None, 0, 2, 12])
    in_events = interval is not None and random.random() < 0.5
    within: Any = interval
    if in_events and interval is not None:
        within = WithinEventTime(interval, at, at, WatermarkClock(setting.watermark))

    def build(streams, options):
        kind: Any = "left" if left else "inner"
        ours, others = streams
        return [ours.stateful_join(others, key=of_key, other_key=of_key, kind=kind, within=within, **options)]

    expected = reference(feed, left=left, within=interval, setting=setting if in_events else None)
    moved = run_moving(build, feed, seed=seed)
    keys_left = None if interval is None else moved.keys_left()
    return moved.on_bins, moved.by_hash, expected, keys_left, moved.bins_shipped


@pytest.mark.parametrize("seed", SEEDS)
def test_while_bins_move_it_equals_all_pairs_of_all_records(seed: int):
    on_bins, by_hash, expected, keys_left, _ = simulate(seed)
    assert by_hash == expected
    assert on_bins == expected
    assert not keys_left


def test_the_simulation_moves_bins_and_has_pairs_of_every_kind():
    runs = [simulate(seed) for seed in SEEDS]
    rows = [row for _, _, expected, _, _ in runs for rows in expected.values() for _, row in rows]
    assert sum(shipped for *_, shipped in runs) > 100
    assert {other is None for _, other in rows} == {True, False}
