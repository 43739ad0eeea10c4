"""`--sim-seed N` runs one seed instead of all; `--sim-trace N` shows the last moves before a failure."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sim-seed", type=int, metavar="N", help="run this seed of the simulation alone")
    parser.addoption("--sim-trace", type=int, default=0, metavar="N", help="show the last N moves before a failure")


@pytest.fixture
def sim_seed(request: pytest.FixtureRequest) -> int | None:
    """The one seed that was asked for."""
    seed: int | None = request.config.getoption("--sim-seed", default=None)
    return seed


@pytest.fixture
def sim_trace(request: pytest.FixtureRequest) -> int:
    """How many moves to show."""
    moves: int = request.config.getoption("--sim-trace", default=0)
    return moves
