"""How often the long run of a job that grows and shrinks is repeated, and hosts for a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest

from tests.hosts import Hosts, Made, NoHosts


@pytest.fixture
def made() -> Iterator[Made]:
    """Makes hosts that are there until the test ends; where there can be none, skips it."""
    with ExitStack() as stack:

        def make(net: AbstractContextManager[Hosts]) -> Hosts:
            try:
                return stack.enter_context(net)
            except NoHosts as reason:
                pytest.skip(str(reason))

        yield make


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rescale-runs", type=int, default=1, help="how often a job grows and shrinks (1)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "rescale_run" in metafunc.fixturenames:
        metafunc.parametrize("rescale_run", range(metafunc.config.getoption("--rescale-runs")))
