"""The runner: a step when the one before is complete and the gap has passed."""

from __future__ import annotations

import pytest

from framework.membership.members import WorkerId
from routing.bins import BinId
from routing.errors import PlanInvalid
from routing.migration import Plan, PlanProgress, PlanRunner, Step, Transfer


def step(*bins: int) -> Step:
    return Step(tuple(Transfer(BinId(bin_id), WorkerId(0), WorkerId(1), 10 * bin_id) for bin_id in bins))


STEPS = (step(1), step(2, 3), step(4))
PLAN = Plan(STEPS)


def test_each_step_waits_for_the_one_before():
    runner = PlanRunner(PLAN)
    calls: list[tuple[float, int | None]] = [(0, None), (1, None), (2, 0), (2, 0), (3, 1), (9, 1), (9, 2), (9, 2)]
    assert [runner.next(now_s, completed) for now_s, completed in calls] == [
        STEPS[0],
        None,
        STEPS[1],
        None,
        STEPS[2],
        None,
        None,
        None,
    ]
    assert runner.finished


def test_a_gap_counts_from_when_a_completion_is_seen():
    runner = PlanRunner(PLAN, gap_s=2.0)
    assert runner.due_s == float("-inf")
    assert runner.next(100.0, None) == STEPS[0]
    assert runner.due_s is None
    assert runner.next(105.0, 0) is None
    assert runner.due_s == 107.0
    assert runner.next(106.9, 0) is None
    assert runner.next(107.0, 0) == STEPS[1]
    assert runner.next(110.0, 1) is None
    assert runner.next(200.0, 1) == STEPS[2]
    assert runner.next(201.0, 2) is None
    assert (runner.due_s, runner.finished) == (None, True)


def test_progress_counts_what_is_complete():
    runner = PlanRunner(PLAN)
    assert runner.progress() == PlanProgress(0, 3, 0, 4, 0, 100, cancelled=False)
    runner.next(0, None)
    assert (runner.under_way, runner.progress().steps_done) == (STEPS[0], 0)
    runner.next(1, 0)
    assert runner.under_way == STEPS[1]
    assert runner.progress() == PlanProgress(1, 3, 1, 4, 10, 100, cancelled=False)
    runner.next(2, 1)
    runner.next(3, 2)
    assert runner.under_way is None
    assert str(runner.progress()) == "3 of 3 steps, 4 of 4 bins, 100 of 100 bytes"


def test_a_cancelled_plan_completes_its_step_and_can_be_resumed():
    runner = PlanRunner(PLAN)
    runner.next(0, None)
    runner.cancel()
    assert (runner.finished, runner.under_way, runner.remaining) == (False, STEPS[0], Plan(STEPS[1:]))
    assert runner.next(1, 0) is None
    assert (runner.finished, runner.under_way, runner.due_s) == (True, None, None)
    assert str(runner.progress()) == "1 of 3 steps, 1 of 4 bins, 10 of 100 bytes, cancelled"
    runner.resume()
    assert not runner.finished
    assert runner.next(2, 0) == STEPS[1]


def test_a_plan_cancelled_before_it_began_is_finished():
    runner = PlanRunner(PLAN)
    runner.cancel()
    assert (runner.next(0, None), runner.finished, runner.remaining) == (None, True, PLAN)


def test_an_interrupted_run_goes_on_where_it_was():
    runner = PlanRunner(PLAN, done=2)
    assert runner.next(0, None) == STEPS[2]
    assert runner.next(1, 1) is None
    assert not runner.finished
    assert runner.next(1, 2) is None
    assert (runner.finished, runner.progress().bins_moved) == (True, 4)


def test_an_empty_plan_is_finished_at_once():
    runner = PlanRunner(Plan(()))
    assert (runner.finished, runner.next(0, None)) == (True, None)


def test_only_what_was_sent_completes():
    runner = PlanRunner(PLAN)
    with pytest.raises(AssertionError, match="step 0 is complete, but only 0 were sent"):
        runner.next(0, 0)


def test_what_cannot_be_run_is_refused():
    with pytest.raises(PlanInvalid, match=r"a gap of -1\.0 s"):
        PlanRunner(PLAN, gap_s=-1.0)
    with pytest.raises(PlanInvalid, match="4 steps were done, but the plan has 3"):
        PlanRunner(PLAN, done=4)
