"""The migration controller while goals, workers and other people's commands come and go, from seeds."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sim.controller_run import run_seed

CHUNK = 8


@pytest.mark.parametrize("first", range(0, 24, CHUNK))
def test_every_goal_ends_and_counts_are_right(first: int, sim_seed: int | None, sim_trace: int):
    if sim_seed is not None:
        if first == 0:
            run_seed(sim_seed, trace_moves=sim_trace)
        return
    outcomes = [run_seed(seed) for seed in range(first, first + CHUNK)]
    goals = sum((outcome.goals for outcome in outcomes), Counter[str]())
    assert goals["reached"] > CHUNK // 2, f"goals ended: {goals}"
    assert goals["cancelled"], f"goals ended: {goals}"
    assert goals["superseded"], f"goals ended: {goals}"
    assert sum(outcome.left for outcome in outcomes), "nobody left"
    assert sum(outcome.killed for outcome in outcomes), "nobody died"
    assert sum(outcome.steps for outcome in outcomes) > CHUNK, "hardly a bin moved"
    assert sum(outcome.joined for outcome in outcomes) > CHUNK // 4, "hardly anybody joined"
