"""How often the long run of a job that grows and shrinks is repeated."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rescale-runs", type=int, default=1, help="how often a job grows and shrinks (1)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "rescale_run" in metafunc.fixturenames:
        metafunc.parametrize("rescale_run", range(metafunc.config.getoption("--rescale-runs")))
