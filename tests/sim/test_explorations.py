"""Every order of events of small clusters in which workers join, leave, die and come to the end of their job."""

from __future__ import annotations

import pytest

from framework.simulation.views import Unsafe
from tests.sim.explorations import CONFIGURATIONS, run

ELSEWHERE = {"join-through-the-other", "join-through-a-leaver", "join-and-leave"}
"""Those that take longest: `python -m tests.sim.explorations`."""


@pytest.mark.parametrize("name", sorted(CONFIGURATIONS.keys() - ELSEWHERE))
def test_nothing_that_can_happen_breaks_a_claim(name: str):
    found = run(name)
    assert found.broken is None, "\n".join(found.trace)
    assert found.ends, "it never came to an end"


def test_nor_does_it_step_by_step():
    found = run("leave", full=True)
    assert found.broken is None, "\n".join(found.trace)


@pytest.mark.parametrize("rule", ["frontier", "hasty", "late"])
def test_a_weaker_rule_is_found_out(rule: str):
    found = run("join", under=rule, seeking=Unsafe)
    assert isinstance(found.broken, Unsafe), f"nothing found in {found}"


def test_a_capability_at_the_servers_view_of_the_frontier_reopens_a_time():
    """The counter-example of docs/internals/membership.md."""
    found = run("join", under="frontier", seeking=Unsafe)
    *moves, broken = found.trace
    assert len(moves) == 6
    assert "Roster" in moves[1]
    assert broken.strip() == "on worker 1, the frontier at source 0 of 'numbers' is {1}, but 0 could still turn up"
