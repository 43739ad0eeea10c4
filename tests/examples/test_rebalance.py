"""`rebalance.py`: a plan is printed, carried out step by step, and every count is right on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.program import example
from tests.processes import run


@pytest.mark.parametrize(
    ("flags", "steps"),
    [(("-n", "2"), 16), (("-w", "3", "--plan", "fluid"), 21), (("-w", "2", "--plan", "all-at-once"), 1)],
)
def test_the_bins_are_spread(flags: tuple[str, ...], steps: int, tmp_path: Path):
    outcome = run(*example("rebalance.py", *flags), state=tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    header, *table, summary = outcome.lines
    assert header == "step  bins  bytes  bin: from→to"
    assert abs(len(table) - steps) <= 4
    assert summary.startswith(f"{len(table)} of {len(table)} steps, ")


def test_a_plan_that_does_not_exist(tmp_path: Path):
    outcome = run(*example("rebalance.py", "--plan", "fast"), state=tmp_path)
    assert outcome.code == 2
    assert "invalid choice: 'fast'" in outcome.err
