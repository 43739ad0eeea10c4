"""A plan on a running job: each step is sent when the one before is complete, and what goes wrong ends it."""

from __future__ import annotations

from framework.membership.members import WorkerId
from operators.control.plan_execution import PlanExecution, Seen
from routing.bins import BinId
from routing.migration.plan import Plan, Step, Transfer

ONE, TWO = WorkerId(1), WorkerId(2)


def step(*bins: int) -> Step:
    return Step(tuple(Transfer(BinId(bin_id), ONE, TWO) for bin_id in bins))


def seen(ahead: str, installed: str, since: int, output: int | None) -> Seen:
    """Tables as digits: the owner of each bin."""
    return Seen([WorkerId(int(one)) for one in ahead], [WorkerId(int(one)) for one in installed], since, output)


FIRST, SECOND = step(0), step(1, 2)


def test_a_step_follows_when_the_one_before_is_complete():
    execution = PlanExecution(Plan((FIRST, SECOND)), began_s=0.0)
    assert execution.look(0.0, 5, {"0.3": seen("111", "111", 0, 3)}) == FIRST
    assert execution.look(0.1, 5, {"0.3": seen("111", "111", 0, 3)}) is None  # not announced
    assert execution.look(0.2, 6, {"0.3": seen("211", "111", 0, 4)}) is None  # not installed
    assert execution.look(0.3, 6, {"0.3": seen("211", "211", 5, 5)}) is None  # not arrived
    assert execution.look(0.4, 7, {"0.3": seen("211", "211", 5, 6)}) == SECOND
    assert execution.look(0.9, 8, {"0.3": seen("222", "222", 7, 8)}) is None
    report = execution.report()
    assert report.finished
    assert report.failure is None
    assert (report.progress.steps_done, report.progress.bins_moved, report.duration_s) == (2, 3, 0.9)


def test_the_longest_stall_is_that_of_the_outputs():
    execution = PlanExecution(Plan((FIRST,)), began_s=10.0)
    execution.look(10.0, 5, {"0.3": seen("1", "1", 0, 3)})
    execution.look(10.7, 5, {"0.3": seen("2", "1", 0, 3)})
    execution.look(10.8, 6, {"0.3": seen("2", "1", 0, 4)})
    execution.look(11.0, 6, {"0.3": seen("2", "2", 5, 6)})
    assert execution.report().finished
    assert abs(execution.report().stall_s_max - 0.7) < 1e-9


def test_outputs_that_have_caught_up_with_the_inputs_do_not_stall():
    """Nothing comes in, so nothing can come out."""
    execution = PlanExecution(Plan((FIRST,)), began_s=0.0)
    for at_s, fed_at, output in [(0.0, 5, 4), (0.5, 5, 5), (9.0, 5, 5), (9.2, 6, 5), (9.5, 7, 5), (9.6, 7, 6)]:
        execution.look(at_s, fed_at, {"0.3": seen("2", "1", 0, output)})
    assert abs(execution.report().stall_s_max - 0.5) < 1e-9


def test_a_gap_between_steps_is_kept():
    execution = PlanExecution(Plan((FIRST, SECOND)), began_s=0.0, gap_s=1.0)
    done = {"0.3": seen("211", "211", 5, 6)}
    assert execution.look(0.0, 5, {"0.3": seen("111", "111", 0, 3)}) == FIRST
    assert execution.look(0.5, 6, done) is None
    assert execution.look(1.4, 6, done) is None
    assert execution.look(1.6, 6, done) == SECOND


def test_a_step_that_no_table_shows_once_its_epoch_is_complete_was_refused():
    execution = PlanExecution(Plan((FIRST, SECOND)), began_s=0.0)
    execution.look(0.0, 5, {"0.3": seen("111", "111", 0, 3)})
    assert execution.look(0.1, 6, {"0.3": seen("111", "111", 0, 6)}) is None
    assert not execution.finished  # it may have been sent at epoch 6
    assert execution.look(0.2, 9, {"0.3": seen("111", "111", 0, 7)}) is None
    assert execution.finished
    assert execution.report().failure == "step 0 was refused; bins 0 are where they were"
    assert execution.look(0.3, 9, {"0.3": seen("211", "211", 8, 9)}) is None


def test_an_operator_that_does_not_take_a_step_is_not_waited_for():
    execution = PlanExecution(Plan((FIRST,)), began_s=0.0)
    other = seen("111", "111", 0, 9)
    execution.look(0.0, 5, {"0.3": seen("111", "111", 0, 3), "0.9": other})
    execution.look(0.1, 5, {"0.3": seen("211", "111", 0, 3), "0.9": other})
    assert not execution.finished
    execution.look(0.2, 6, {"0.3": seen("211", "211", 5, 6), "0.9": other})
    assert execution.report().failure is None
    assert execution.finished


def test_all_operators_that_take_a_step_are_waited_for():
    execution = PlanExecution(Plan((FIRST,)), began_s=0.0)
    execution.look(0.0, 5, {"0.3": seen("1", "1", 0, 3), "0.9": seen("1", "1", 0, 3)})
    execution.look(0.1, 6, {"0.3": seen("2", "2", 5, 6), "0.9": seen("2", "1", 0, 4)})
    assert not execution.finished
    execution.look(0.2, 6, {"0.3": seen("2", "2", 5, 7), "0.9": seen("2", "2", 5, None)})
    assert execution.finished


def test_cancelled_it_ends_after_the_step_under_way():
    execution = PlanExecution(Plan((FIRST, SECOND)), began_s=0.0)
    execution.look(0.0, 5, {"0.3": seen("111", "111", 0, 3)})
    execution.cancel()
    assert not execution.finished
    assert execution.look(0.1, 6, {"0.3": seen("211", "211", 5, 6)}) is None
    assert execution.finished
    assert (execution.report().progress.bins_moved, execution.report().progress.cancelled) == (1, True)


def test_it_ends_with_the_job():
    execution = PlanExecution(Plan((FIRST,)), began_s=0.0)
    execution.look(0.0, 5, {"0.3": seen("111", "111", 0, 3)})
    assert execution.look(0.1, None, {}) is None
    assert (execution.finished, execution.report().failure) == (True, "the job has ended")


def test_once_the_inputs_have_ended_nothing_is_sent():
    execution = PlanExecution(Plan((FIRST,)), began_s=0.0)
    assert execution.look(0.0, None, {"0.3": seen("111", "111", 0, 3)}) is None
    assert execution.report().failure == "the job's inputs have ended, and its bins move no more"
