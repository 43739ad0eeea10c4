"""Bins that move at random while records flow: every output right, at the right worker, and all runs end.

A failure names its seed and the command that replays it.
"""

from __future__ import annotations

import pytest

from tests.sim.bins_run import run_seed

CHUNKS = 10
SEEDS_PER_CHUNK = 30


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_bins_that_move(chunk: int, sim_seed: int | None, sim_trace: int):
    if sim_seed is not None:
        if chunk == 0:
            run_seed(sim_seed, trace_moves=sim_trace)
        return
    first = chunk * SEEDS_PER_CHUNK
    shipped = sum(run_seed(seed) for seed in range(first, first + SEEDS_PER_CHUNK))
    assert shipped > SEEDS_PER_CHUNK
