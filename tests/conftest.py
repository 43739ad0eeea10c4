"""What holds for every test: their order, how hypothesis searches, how Java is started, and how folds are compiled.

`suite` is the default: the same examples in every run, few enough that the whole suite stays short. To look further,
with new examples each time: `make test ARGS="--hypothesis-profile=search tests/property"`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No deadline: a slow machine is not a bug, and pytest's own timeout catches what hangs.
settings.register_profile(
    "suite",
    derandomize=True,
    max_examples=100,
    deadline=None,
    print_blob=True,
)
settings.register_profile(
    "search",
    derandomize=False,
    max_examples=5_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")

# A test's Java does not live long enough for its best compiler to pay: a session starts in 3/4 of the time without it.
for _variable in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(_variable, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Nor does the work of a test pay for the best that a fold can be compiled to. What is made of it is kept apart.
os.environ.setdefault("NUMBA_OPT", "1")
os.environ.setdefault("HAILER_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "kernels"))

FIRST = ("spark", "examples", "process", "sim")
"""Folders of tests that wait long for Java and for processes, and so leave a core to others; and then the rest."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several processes, files are dealt out in this order: the long ones are not to be left for the end."""

    def rank(item: pytest.Item) -> int:
        return next((rank for rank, folder in enumerate(FIRST) if item.path.is_relative_to(_HERE / folder)), len(FIRST))

    items.sort(key=rank)


_HERE = Path(__file__).parent
