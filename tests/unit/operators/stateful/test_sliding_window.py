"""`sliding_window`: every window that an event is in, none that it is not in, and records that miss some of them."""

from __future__ import annotations

from typing import Any

import pytest

from framework.errors import UserError
from framework.launch.execute import example
from operators import EpochClock, Late, Window, counting, iterator_source


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
