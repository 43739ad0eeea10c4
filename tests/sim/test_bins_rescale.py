"""Bins on clusters that grow and shrink: random joins, bootstraps, moves, retirements and leaves from seeds."""

from __future__ import annotations

import pytest

from tests.sim.bins_rescale_run import run_seed

CHUNK = 30


@pytest.mark.parametrize("first", range(0, 90, CHUNK))
def test_counts_are_right_while_workers_come_and_go(first: int, sim_seed: int | None, sim_trace: int):
    if sim_seed is not None:
        if first == 0:
            run_seed(sim_seed, trace_moves=sim_trace)
        return
    outcomes = [run_seed(seed) for seed in range(first, first + CHUNK)]
    assert sum(outcome.restored for outcome in outcomes) > CHUNK // 2, "hardly anybody joined"
    assert sum(outcome.left for outcome in outcomes) > CHUNK // 6, "hardly anybody left"
    assert sum(outcome.killed for outcome in outcomes) > 0, "nobody died"
    assert sum(outcome.configurations for outcome in outcomes) > CHUNK, "hardly a bin moved"
    assert sum(outcome.from_second for outcome in outcomes) > CHUNK // 4, "hardly anybody else sent commands"
