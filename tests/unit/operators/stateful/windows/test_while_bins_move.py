"""Windows of every kind equal what a loop over all records makes of them, on bins that move and by hash."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import add
from random import Random
from typing import Any

import pytest

from operators import Late, Pane, WatermarkClock, Window, reducing
from tests.unit.operators.moving import Feed, Outcome, Rows, run_moving
from tests.unit.operators.window_reference import Setting, aligned, random_events, random_setting, sessions

SEEDS = range(24)
EPOCHS = 8

Reference = Callable[[list[Rows], Setting], Outcome]


def tumbling(random: Random) -> tuple[dict[str, int], Reference]:
    length, offset = random.choice([1, 5, 10, 30]), random.choice([0, 3, -7])

    def windows_of(time: int) -> list[Window]:
        return [Window(s, s + length) for s in range(time - length + 1, time + 1) if (s - offset) % length == 0]

    return {"length": length, "offset": offset}, lambda feed, setting: aligned(feed, setting, windows_of)


def sliding(random: Random) -> tuple[dict[str, int], Reference]:
    length, step = random.choice([(10, 5), (10, 10), (15, 4), (30, 10), (7, 1)])
    offset = random.choice([0, 3, -7])

    def windows_of(time: int) -> list[Window]:
        starts = range(time, time - length, -1)
        return [Window(start, start + length) for start in starts if (start - offset) % step == 0]

    shape = {"length": length, "step": step, "offset": offset}
    return shape, lambda feed, setting: aligned(feed, setting, windows_of)


def session(random: Random) -> tuple[dict[str, int], Reference]:
    """Made again in each epoch."""
    gap = random.choice([1, 5, 10, 25])
    return {"gap": gap}, lambda feed, setting: sessions(feed, setting, gap)


KINDS = {"tumbling_window": tumbling, "sliding_window": sliding, "session_window": session}


@cache
def simulate(kind: str, seed: int) -> tuple[Outcome, Outcome, Outcome, int, int]:
    random = Random(seed)
    setting = random_setting(random, EPOCHS)
    feed: Feed = [random_events(random, setting, EPOCHS)]
    shape, reference = KINDS[kind](random)

    def build(streams: list[Any], options: dict[str, Any]) -> list[Any]:
        windows = getattr(streams[0], kind)(
            reducing(add, of=lambda event: event[2]),
            key=lambda event: event[0],
            event_time=lambda event: event[1],
            clock=WatermarkClock(setting.watermark),
            lateness=setting.lateness,
            early="epoch" if setting.early else None,
            **shape,
            **options,
        )
        return list(windows)

    moved = run_moving(build, feed, seed=seed)
    return moved.on_bins, moved.by_hash, reference(feed[0], setting), moved.keys_left(), moved.bins_shipped


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_they_equal_the_reference(kind: str, seed: int):
    on_bins, by_hash, expected, keys_left, _ = simulate(kind, seed)
    assert by_hash == expected
    assert on_bins == expected
    assert keys_left == 0


@pytest.mark.parametrize(
    ("kind", "windows_missed"), [("tumbling_window", 1), ("sliding_window", 2), ("session_window", 1)]
)
def test_the_simulation_moves_bins_and_has_results_of_every_kind(kind: str, windows_missed: int):
    runs = [simulate(kind, seed) for seed in SEEDS]
    rows = [row for _, _, expected, _, _ in runs for rows in expected.values() for _, row in rows]
    assert sum(shipped for *_, shipped in runs) > 100
    assert {row.pane for row in rows if not isinstance(row, Late)} == set(Pane)
    assert {len(row.windows) for row in rows if isinstance(row, Late)} >= {*range(1, windows_missed + 1)}
