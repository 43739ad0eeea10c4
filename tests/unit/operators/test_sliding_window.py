"""`sliding_window`: every window that an event is in, none that it is not in, and records that miss some of them."""

from __future__ import annotations

from functools import cache
from operator import add
from random import Random
from typing import Any

import pytest

from framework.errors import UserError
from framework.launch.execute import example
from operators import EpochClock, Late, Pane, WatermarkClock, Window, counting, iterator_source, reducing
from tests.unit.operators.moving import Feed, Outcome, run_moving
from tests.unit.operators.window_reference import aligned, random_events, random_setting

SEEDS = range(24)
EPOCHS = 8


def slide(epochs: list[list[int]], **options: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Count event times in windows, with epochs of 5, on one worker: by epoch (start, end, count), and what is late."""

    def build(scope):
        results, late = iterator_source(scope, enumerate(epochs)).sliding_window(
            counting(),
            **{"length": 10, "step": 5, "key": lambda _: "k", "event_time": int, "clock": EpochClock(5), **options},
        )
        return results.map(lambda result: (*result.window, result.value)).extract(), late.extract()

    results, late = example(build)
    return results.by_time(), late.by_time()


@pytest.mark.parametrize(
    ("event", "windows"),
    [(9, [(0, 10), (5, 15)]), (10, [(5, 15), (10, 20)]), (11, [(5, 15), (10, 20)]), (0, [(-5, 5), (0, 10)])],
)
def test_an_event_at_a_border_is_in_as_many_windows_as_any_other(event: int, windows: list[tuple[int, int]]):
    results, late = slide([[event]])
    assert [row for rows in results.values() for row in rows] == [(*window, 1) for window in windows]
    assert late == {}


@pytest.mark.parametrize("offset", [0, 1, -2, 7])
@pytest.mark.parametrize(("length", "step"), [(10, 10), (10, 5), (10, 3), (7, 4), (1, 1), (10, 1)])
def test_an_event_is_in_every_window_that_starts_before_it_and_ends_after_it(length: int, step: int, offset: int):
    for event in range(-15, 30):
        results, _ = slide([[event]], length=length, step=step, offset=offset)
        assert sorted(row for rows in results.values() for row in rows) == [
            (start, start + length, 1)
            for start in range(event - 2 * length, event + 2 * length)
            if (start - offset) % step == 0 and start <= event < start + length
        ]


def test_windows_close_one_after_another():
    assert slide([[3, 9], [10]])[0] == {0: [(-5, 5, 1)], 1: [(0, 10, 2)], 2: [(5, 15, 2)], 3: [(10, 20, 1)]}


def test_a_record_too_late_for_one_window_counts_in_the_next():
    """After epoch 1 the watermark is 10: from 0 to 10 is over, from 5 to 15 is not."""
    assert slide([[], [], [9]]) == ({2: [(5, 15, 1)]}, {2: [Late(9, (Window(0, 10),))]})


def test_a_record_too_late_for_all_windows_names_all_of_them():
    assert slide([[], [], [], [], [2]]) == ({}, {4: [Late(2, (Window(0, 10), Window(-5, 5)))]})


@pytest.mark.parametrize(("length", "step"), [(5, 10), (5, 0), (5, -1), (0, 0)])
def test_steps_that_would_lose_records_are_refused(length: int, step: int):
    with pytest.raises(UserError, match="operator 'sliding_window' cannot have windows of length"):
        slide([], length=length, step=step)


@cache
def simulate(seed: int) -> tuple[Outcome, Outcome, Outcome, int, int]:
    random = Random(seed)
    setting = random_setting(random, EPOCHS)
    feed: Feed = [random_events(random, setting, EPOCHS)]
    length, step = random.choice([(10, 5), (10, 10), (15, 4), (30, 10), (7, 1)])
    offset = random.choice([0, 3, -7])

    def build(streams, options):
        windows = streams[0].sliding_window(
            reducing(add, of=lambda event: event[2]),
            length=length,
            step=step,
            offset=offset,
            key=lambda event: event[0],
            event_time=lambda event: event[1],
            clock=WatermarkClock(setting.watermark),
            lateness=setting.lateness,
            early="epoch" if setting.early else None,
            **options,
        )
        return list(windows)

    def windows_of(time):
        starts = range(time, time - length, -1)
        return [Window(start, start + length) for start in starts if (start - offset) % step == 0]

    moved = run_moving(build, feed, seed=seed)
    return moved.on_bins, moved.by_hash, aligned(feed[0], setting, windows_of), moved.keys_left(), moved.bins_shipped


@pytest.mark.parametrize("seed", SEEDS)
def test_while_bins_move_it_equals_a_loop_over_all_records(seed: int):
    on_bins, by_hash, expected, keys_left, _ = simulate(seed)
    assert by_hash == expected
    assert on_bins == expected
    assert keys_left == 0


def test_the_simulation_moves_bins_and_has_results_of_every_kind():
    runs = [simulate(seed) for seed in SEEDS]
    rows = [row for _, _, expected, _, _ in runs for rows in expected.values() for _, row in rows]
    assert sum(shipped for *_, shipped in runs) > 100
    assert {row.pane for row in rows if not isinstance(row, Late)} == set(Pane)
    assert {len(row.windows) for row in rows if isinstance(row, Late)} >= {1, 2}
