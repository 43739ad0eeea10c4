"""Thousands of random dataflows on random clusters: nothing is lost, early, late, or out of order, and all of them end.

A failure names its seed and the command that replays it.
"""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.sim.run import run_seed

CHUNKS = 20
SEEDS_PER_CHUNK = 100


def run_chunk(seeds: range) -> str | None:
    """The story of the first seed that fails; as text, since it comes from another process."""
    for seed in seeds:
        try:
            run_seed(seed)
        except Exception:
            return traceback.format_exc()
    return None


@pytest.fixture(scope="module")
def chunks(request: pytest.FixtureRequest) -> Iterator[list[Future[str | None]]]:
    """All seeds, on all cores."""
    if request.config.getoption("--sim-seed", default=None) is not None:
        yield []
        return
    with ProcessPoolExecutor(
        os.cpu_count(), mp_context=get_context("spawn"), initializer=warnings.simplefilter, initargs=("error",)
    ) as pool:
        firsts = range(0, CHUNKS * SEEDS_PER_CHUNK, SEEDS_PER_CHUNK)
        yield [pool.submit(run_chunk, range(first, first + SEEDS_PER_CHUNK)) for first in firsts]
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_dataflows(chunk: int, chunks: list[Future[str | None]], sim_seed: int | None, sim_trace: int):
    if sim_seed is not None:
        if chunk == 0:
            run_seed(sim_seed, trace_moves=sim_trace)
        return
    failure = chunks[chunk].result()
    if failure is not None:
        pytest.fail(failure, pytrace=False)
