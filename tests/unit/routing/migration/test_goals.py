"""What a pace cuts a change into."""

from __future__ import annotations

import pytest

from framework.membership.members import WorkerId
from routing.bins import BinId
from routing.migration.goals import STRATEGIES, GoalState, GoalStatus, Pace, plan_of, steps_of
from routing.migration.pacing import StepBudget
from routing.migration.strategies import Reassignment

ZERO, ONE = WorkerId(0), WorkerId(1)
CHANGE = Reassignment([ZERO] * 40, [ONE] * 40, {BinId(index): 100 for index in range(40)})


@pytest.mark.parametrize(
    ("strategy", "sizes"),
    [
        ("paced", [40]),
        ("optimized", [1] * 40),
        ("fluid", [1] * 40),
        ("batched", [16, 16, 8]),
        ("all-at-once", [40]),
    ],
)
def test_a_strategy_cuts_a_change_into_steps(strategy: str, sizes: list[int]):
    plan = plan_of(CHANGE, Pace(strategy))
    assert [len(step.transfers) for step in plan.steps] == sizes
    assert plan.apply(CHANGE.current) == CHANGE.target


def test_all_strategies_are_tried_here_and_the_usual_one_is_paced():
    assert list(STRATEGIES) == ["paced", "optimized", "fluid", "batched", "all-at-once"]
    assert Pace() == Pace("paced", 0.0)


def test_only_paced_steps_heed_the_budget():
    budget = StepBudget(1000)
    assert [len(step.transfers) for step in steps_of(CHANGE, Pace(), budget)] == [10] * 4
    assert [len(step.transfers) for step in steps_of(CHANGE, Pace("batched"), budget)] == [16, 16, 8]


@pytest.mark.parametrize(
    ("status", "finished"),
    [("under way", False), ("reached", True), ("cancelled", True), ("superseded", True), ("failed", True)],
)
def test_a_goal_has_finished_once_nothing_more_is_done_for_it(status: GoalStatus, finished: bool):
    assert GoalState(0, "it", status, "", 0.0, 0.0, 0, 0, 0, 0).finished is finished
