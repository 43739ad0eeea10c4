"""A plan on a running job: each step is sent when the one before is complete, and what goes wrong ends it."""

from __future__ import annotations

from framework.membership.members import WorkerId
from operators.control.operator_view import BinnedOperatorView
from operators.control.running_plan import RunningPlan
from routing.bins import BinId
from routing.migration.plan import Plan, Step, Transfer

ONE, TWO = WorkerId(1), WorkerId(2)


def step(*bins: int) -> Step:
    return Step(tuple(Transfer(BinId(bin_id), ONE, TWO) for bin_id in bins))


def seen(ahead: str, installed: str, since: int, output: int | None) -> BinnedOperatorView:
    """Tables as digits: the owner of each bin."""
    return BinnedOperatorView(
        [WorkerId(int(one)) for one in ahead], [WorkerId(int(one)) for one in installed], since, output
    )


FIRST, SECOND = step(0), step(1, 2)


def test_a_step_follows_when_the_one_before_is_complete():
    running = RunningPlan(0, Plan((FIRST, SECOND)), began_s=0.0)
    assert running.observe(0.0, 5, {"0.3": seen("111", "111", 0, 3)}) == FIRST
    assert running.observe(0.1, 5, {"0.3": seen("111", "111", 0, 3)}) is None  # not announced
    assert running.observe(0.2, 6, {"0.3": seen("211", "111", 0, 4)}) is None  # not installed
    assert running.observe(0.3, 6, {"0.3": seen("211", "211", 5, 5)}) is None  # not arrived
    assert running.observe(0.4, 7, {"0.3": seen("211", "211", 5, 6)}) == SECOND
    assert running.observe(0.9, 8, {"0.3": seen("222", "222", 7, 8)}) is None
    state = running.state()
    assert state.finished
    assert state.failure is None
    assert (state.steps_done, state.bins_moved, state.duration_s) == (2, 3, 0.9)


def test_the_longest_stall_is_that_of_the_outputs():
    running = RunningPlan(0, Plan((FIRST,)), began_s=10.0)
    running.observe(10.0, 5, {"0.3": seen("1", "1", 0, 3)})
    running.observe(10.7, 5, {"0.3": seen("2", "1", 0, 3)})
    running.observe(10.8, 6, {"0.3": seen("2", "1", 0, 4)})
    running.observe(11.0, 6, {"0.3": seen("2", "2", 5, 6)})
    assert running.state().finished
    assert abs(running.state().stall_s_max - 0.7) < 1e-9


def test_outputs_that_have_caught_up_with_the_inputs_do_not_stall():
    """Nothing comes in, so nothing can come out."""
    running = RunningPlan(0, Plan((FIRST,)), began_s=0.0)
    for at_s, fed_at, output in [(0.0, 5, 4), (0.5, 5, 5), (9.0, 5, 5), (9.2, 6, 5), (9.5, 7, 5), (9.6, 7, 6)]:
        running.observe(at_s, fed_at, {"0.3": seen("2", "1", 0, output)})
    assert abs(running.state().stall_s_max - 0.5) < 1e-9


def test_a_gap_between_steps_is_kept():
    running = RunningPlan(0, Plan((FIRST, SECOND)), began_s=0.0, gap_s=1.0)
    done = {"0.3": seen("211", "211", 5, 6)}
    assert running.observe(0.0, 5, {"0.3": seen("111", "111", 0, 3)}) == FIRST
    assert running.observe(0.5, 6, done) is None
    assert running.observe(1.4, 6, done) is None
    assert running.observe(1.6, 6, done) == SECOND


def test_a_step_that_no_table_shows_once_its_epoch_is_complete_was_refused():
    running = RunningPlan(0, Plan((FIRST, SECOND)), began_s=0.0)
    running.observe(0.0, 5, {"0.3": seen("111", "111", 0, 3)})
    assert running.observe(0.1, 6, {"0.3": seen("111", "111", 0, 6)}) is None
    assert not running.finished  # it may have been sent at epoch 6
    assert running.observe(0.2, 9, {"0.3": seen("111", "111", 0, 7)}) is None
    assert running.finished
    assert running.state().failure == "step 0 was refused; bins 0 are where they were"
    assert running.observe(0.3, 9, {"0.3": seen("211", "211", 8, 9)}) is None


def test_an_operator_that_does_not_take_a_step_is_not_waited_for():
    running = RunningPlan(0, Plan((FIRST,)), began_s=0.0)
    other = seen("111", "111", 0, 9)
    running.observe(0.0, 5, {"0.3": seen("111", "111", 0, 3), "0.9": other})
    running.observe(0.1, 5, {"0.3": seen("211", "111", 0, 3), "0.9": other})
    assert not running.finished
    running.observe(0.2, 6, {"0.3": seen("211", "211", 5, 6), "0.9": other})
    assert running.state().failure is None
    assert running.finished


def test_all_operators_that_take_a_step_are_waited_for():
    running = RunningPlan(0, Plan((FIRST,)), began_s=0.0)
    running.observe(0.0, 5, {"0.3": seen("1", "1", 0, 3), "0.9": seen("1", "1", 0, 3)})
    running.observe(0.1, 6, {"0.3": seen("2", "2", 5, 6), "0.9": seen("2", "1", 0, 4)})
    assert not running.finished
    running.observe(0.2, 6, {"0.3": seen("2", "2", 5, 7), "0.9": seen("2", "2", 5, None)})
    assert running.finished


def test_cancelled_it_ends_after_the_step_under_way():
    running = RunningPlan(0, Plan((FIRST, SECOND)), began_s=0.0)
    running.observe(0.0, 5, {"0.3": seen("111", "111", 0, 3)})
    running.cancel()
    assert not running.finished
    assert running.observe(0.1, 6, {"0.3": seen("211", "211", 5, 6)}) is None
    assert running.finished
    assert (running.state().bins_moved, running.state().cancelled) == (1, True)


def test_it_ends_with_the_job():
    running = RunningPlan(0, Plan((FIRST,)), began_s=0.0)
    running.observe(0.0, 5, {"0.3": seen("111", "111", 0, 3)})
    assert running.observe(0.1, None, {}) is None
    assert (running.finished, running.state().failure) == (True, "the job has ended")


def test_once_the_inputs_have_ended_nothing_is_sent():
    running = RunningPlan(0, Plan((FIRST,)), began_s=0.0)
    assert running.observe(0.0, None, {"0.3": seen("111", "111", 0, 3)}) is None
    assert running.state().failure == "the job's inputs have ended, and its bins move no more"
