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


def test_a_joiner_that_does_not_wait_for_every_members_first_number_misses_batches():
    found = run("join", under="hasty")
    assert str(found.broken) == "worker 2, dataflow 0: {(0, 0): 3} is accounted for, {(0, 0): 2, (0, 1): 1} exists"


def test_a_joiner_that_dies_after_its_answer_and_before_those_of_the_members_would_end_the_job():
    found = run("join-and-die", under="eager")
    *_, dies, joins, _ = found.trace
    assert found.broken is not None
    assert "worker 2 dies" in dies
    assert "Joined to 2" in joins


def test_a_capability_at_the_servers_view_of_the_frontier_reopens_a_time():
    """The counter-example of docs/internals/membership.md."""
    found = run("join", under="frontier", seeking=Unsafe)
    *moves, broken = found.trace
    assert len(moves) == 6
    assert "Roster" in moves[1]
    assert broken.strip() == "on worker 1, the frontier at source 0 of 'numbers' is {1}, but 0 could still turn up"
