"""Workers join and leave while records flow: hundreds of random clusters. A failure names its seed."""

from __future__ import annotations

import pytest

from tests.sim.rescale_run import run_seed

CHUNK = 40


@pytest.mark.parametrize("first", range(0, 400, CHUNK))
def test_workers_join_leave_and_die_while_they_join(first: int, sim_seed: int | None, sim_trace: int):
    if sim_seed is not None:
        if first == 0:
            run_seed(sim_seed, trace_moves=sim_trace)
        return
    outcomes = [run_seed(seed) for seed in range(first, first + CHUNK)]
    assert sum(outcome.joined for outcome in outcomes) > CHUNK // 2, "hardly anybody joined"
    assert sum(outcome.left for outcome in outcomes) > CHUNK // 4, "hardly anybody left"
    assert sum(outcome.killed for outcome in outcomes) > 0, "nobody died"
