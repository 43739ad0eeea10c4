"""What becomes of a goal, as whoever asked for it is told."""

from __future__ import annotations

import pytest

from operators.admin.errors import JobUnreachable
from operators.control import change
from operators.control.change import Change
from operators.control.errors import ChangeFailed
from operators.control.job_messages import ChangeState, Outcome
from operators.control.worker_rpc import WorkerRpc
from routing.migration.goals import Pace
from tests.unit.operators.control.scripted import WAIT_S, Refusal, Scripted, goal, scripted, share


def watched(job: Scripted, text: str = "move of 3 bins to worker 1") -> Change:
    """Watch goal 0 to its end."""
    watching = Change(WorkerRpc(job), text, Pace())
    watching.begin(0)
    assert watching.finished.wait(WAIT_S)
    return watching


def test_a_goal_is_watched_until_it_is_reached():
    first = [share(100), share(100, goal("under way", 1, 3)), share(100, goal("reached", 3, 3))]
    with scripted({"AskGoal": first}, {"AskGoal": [share(7), share(37)]}) as job:
        watching = watched(job)
        state = watching.state()
    assert state == ChangeState(
        text="move of 3 bins to worker 1",
        finished=True,
        failure=None,
        cancelled=False,
        waits_for="",
        bins_moved=3,
        bins=3,
        state_bytes=30,
        stall_s_max=0.01,
        duration_s=state.duration_s,
    )
    assert watching.settled
    assert Outcome.of(state) == Outcome(3, 30, state.duration_s, 0.01)
    assert [arguments["number"] for number, _, arguments in job.asked if number == 0][:2] == [-1, 0]


def test_without_bins_there_is_nothing_to_watch():
    with scripted({"AskGoal": [share(0)]}) as job:
        watching = Change(WorkerRpc(job), "rebalance", Pace())
        watching.begin(None)
        assert watching.finished.wait(WAIT_S)
        assert (watching.state().failure, watching.state().bins) == (None, 0)


@pytest.mark.parametrize("status", ["failed", "superseded"])
def test_a_goal_that_does_not_come_about_is_a_failure(status: str):
    ended = goal(status, 1, 3, "because")  # type: ignore[arg-type]
    with scripted({"AskGoal": [share(0), share(0, ended)]}) as job:
        watching = watched(job)
    assert (watching.state().failure, watching.state().bins_moved, watching.settled) == ("because", 1, False)
    with pytest.raises(ChangeFailed, match="the move of 3 bins to worker 1 failed: because"):
        Outcome.of(watching.state())


def test_a_goal_that_was_cancelled_is_none():
    with scripted({"AskGoal": [share(0), share(0, goal("cancelled", 1, 3))]}) as job:
        state = watched(job).state()
    assert (state.failure, state.cancelled, state.bins_moved, state.bins) == (None, True, 1, 3)
    with pytest.raises(ChangeFailed, match="failed: it was cancelled"):
        Outcome.of(state)


def test_what_an_operator_had_received_counts_after_its_end():
    first = [share(0), share(50, goal("under way", 1, 3)), share(0, goal("reached", 3, 3))]
    with scripted({"AskGoal": first}) as job:
        assert watched(job).state().state_bytes == 50


def test_the_end_of_the_job_is_told_with_what_was_waited_for():
    with scripted({"AskGoal": [share(0), share(0, goal("under way", 0, 3, "3 bins are to move"))]}) as job:
        watching = Change(WorkerRpc(job), "rebalance", Pace())
        job.running[0].ended.set()
        watching.begin(0)
        assert watching.finished.wait(WAIT_S)
    assert watching.state().failure == "the job has ended meanwhile; it waited: it begins"


def test_when_nothing_moves_it_is_given_up_with_what_was_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(change, "PATIENCE_S", 0.05)
    first = {"AskGoal": [share(0), share(0, goal("under way", 1, 3, "2 bins are to move"))]}
    with scripted(first) as job:
        failure = watched(job).state().failure
    assert failure == ("nothing has moved for 0.05 s: 2 bins are to move; what has begun goes on: see `hailer status`")


def test_a_gap_between_steps_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(change, "PATIENCE_S", 0.05)
    first = {"AskGoal": [share(0), *[share(0, goal("under way", 1, 3))] * 8, share(0, goal("reached", 3, 3))]}
    with scripted(first) as job:
        watching = Change(WorkerRpc(job), "map", Pace(gap_s=WAIT_S))
        watching.begin(0)
        assert watching.finished.wait(WAIT_S)
    assert (watching.state().failure, watching.state().bins_moved) == (None, 3)


def test_whoever_wants_something_else_ends_the_watching():
    with scripted({"AskGoal": [share(0), share(0, goal("under way", 1, 3))]}) as job:
        watching = Change(WorkerRpc(job), "scale to 4", Pace())
        watching.begin(0)
        watching.supersede("scale to 3")
        assert watching.finished.wait(WAIT_S)
        assert watching.state().failure == "superseded by scale to 3"


def test_what_is_over_is_not_superseded():
    with scripted({"AskGoal": [share(0), share(0, goal("reached", 3, 3))]}) as job:
        watching = watched(job)
        watching.supersede("scale to 3")
    assert (watching.state().failure, watching.settled) == (None, True)


def test_a_job_whose_first_worker_does_not_answer_is_not_changed():
    with scripted({"AskGoal": [share(0)]}) as job:
        rpc = WorkerRpc(job)
        job.running[0].rpc.close()
        with pytest.raises(JobUnreachable, match="worker 0"):
            Change(rpc, "rebalance", Pace())


def test_what_a_worker_refuses_is_the_failure():
    with scripted({"AskGoal": [share(0), Refusal("worker 0 has no goals")]}) as job:
        assert watched(job).state().failure == "worker 0 has no goals"
