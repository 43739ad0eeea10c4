"""Which processes join and leave, what they are told, and what is said of it in the end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from framework.errors import RequestFailed
from framework.launch.control_protocol import Supervised
from framework.membership.members import WorkerId
from operators.admin.json_codec import to_json
from operators.control import change
from operators.control.scaling import ProcessChange, Scaling, change_to
from operators.control.worker_messages import Unmoved
from operators.control.worker_rpc import WorkerRpc
from routing.migration.goals import Pace
from tests.unit.operators.control.scripted import (
    IDLE,
    RESCALABLE,
    WAIT_S,
    Refusal,
    Scripted,
    ends,
    goal,
    joins,
    scripted,
    share,
)


def goals(under_way: int) -> list[Any]:
    """A goal that is under way for so many looks, and then reached."""
    return [share(0), *[share(0, goal("under way", 0, 5))] * under_way, share(0, goal("reached", 5, 5))]


WITHOUT_BINS = {**IDLE, "StartResize": [None]}


@pytest.mark.parametrize(
    ("count", "present", "change"),
    [
        (3, [0], ProcessChange(joins=2)),
        (3, [0, 1, 4], ProcessChange()),
        (2, [0, 1, 4, 7], ProcessChange(leaves=(7, 4))),
        (1, [4, 0, 7], ProcessChange(leaves=(7, 4))),
    ],
)
def test_the_highest_leave_first_and_the_first_stays(count: int, present: list[int], change: ProcessChange):
    assert change_to(count, present) == change


def scaling_of(job: Scripted, change: ProcessChange, text: str = "scale") -> Scaling:
    return Scaling(WorkerRpc(job), text, change, Pace("fluid", 0.5))


def carried_out(job: Scripted, change: ProcessChange) -> Scaling:
    scaling = scaling_of(job, change)
    scaling.start()
    assert scaling.finished.wait(WAIT_S)
    return scaling


def leaves_when_told(job: Scripted, process: Supervised) -> None:
    """Let a process end once it was asked to leave."""

    def watch() -> None:
        while process.process not in job.was_asked("Leave"):
            pass
        process.ended.set()

    threading.Thread(target=watch, daemon=True).start()


def test_state_that_came_to_a_joiner_after_it_was_asked_last_is_counted():
    """Workers answer one request at different moments: the joiner, in the same look, before its last bins came."""
    first = {**RESCALABLE, "AskGoal": [share(0), share(0, goal("under way", 0, 5)), share(0, goal("reached", 5, 5))]}
    joiner = {"AskGoal": [share(0), share(16), share(20)]}
    with scripted(first, joiner=joiner) as job:
        job.spawned = joins
        state = carried_out(job, ProcessChange(joins=1)).state()
    assert (state.failure, state.joined, state.bins_moved, state.state_bytes) == (None, (1,), 5, 20)


def test_the_workers_are_told_who_comes_and_goes_and_how_bins_move():
    with scripted(WITHOUT_BINS, IDLE, IDLE) as job:
        job.spawned = joins
        job.running[2].phases.extend([(WorkerId(2), "state", 0.004), (WorkerId(2), "links", 0.012)])
        leaves_when_told(job, job.running[1])
        state = carried_out(job, ProcessChange(joins=1, leaves=(1,))).state()
    resize = [arguments for _, request, arguments in job.asked if request == "StartResize"]
    assert resize == [{"text": "scale", "joining": [3], "leaving": [1], "pace": to_json(Pace("fluid", 0.5))}]
    assert (state.failure, state.joined, state.left) == (None, (3,), (1,))
    assert state.log == (
        "process 3 starts",
        "process 3 has joined",
        "process 1 is asked to leave, with worker 1",
        "process 1 has left",
    )
    assert state.details == ("", "worker 3 after 0 ms ()", "", "")


def test_how_long_the_parts_of_a_join_took_is_a_detail():
    def slowly(process: Supervised) -> None:
        process.phases.extend([(WorkerId(1), "turn", 0.002), (WorkerId(1), "links", 0.0123)])
        joins(process)

    with scripted(WITHOUT_BINS) as job:
        job.spawned = slowly
        state = carried_out(job, ProcessChange(joins=1)).state()
    assert dict(zip(state.log, state.details, strict=True))["process 1 has joined"] == (
        "worker 1 after 14 ms (turn 2, links 12)"
    )


def test_leavers_are_told_once_their_bins_are_with_others():
    first = {
        **RESCALABLE,
        "AskGoal": [share(0), *[share(0, goal("under way", 0, 5))] * 5, share(0, goal("reached", 5, 5))],
    }
    with scripted(first, IDLE) as job:
        leaves_when_told(job, job.running[1])
        scaling = carried_out(job, ProcessChange(leaves=(1,)))
    assert (scaling.state().failure, scaling.leaving_for_good) == (None, frozenset({1}))
    looks = [index for index, (number, request, _) in enumerate(job.asked) if (number, request) == (0, "AskGoal")]
    told = [index for index, (_, request, _) in enumerate(job.asked) if request == "Leave"]
    assert looks[6] < told[0]


def test_who_was_to_leave_stays_if_that_is_cancelled():
    first = {**RESCALABLE, "AskGoal": [share(0), share(0, goal("cancelled", 2, 5))]}
    with scripted(first, IDLE) as job:
        scaling = carried_out(job, ProcessChange(leaves=(1,)))
    assert (scaling.state().cancelled, scaling.leaving_for_good, job.was_asked("Leave")) == (True, frozenset(), [])


def test_a_joiner_that_fails_is_not_waited_for_and_keeps_no_other_out():
    first = {
        **RESCALABLE,
        "AskGoal": [share(0), *[share(0, goal("under way", 0, 5))] * 3, share(0, goal("reached", 5, 5))],
    }
    with scripted(first) as job:
        job.spawned = lambda process: (ends if process.process == 1 else joins)(process)
        state = carried_out(job, ProcessChange(joins=2)).state()
    assert (state.failure, state.joined) == ("process 1 did not join: it was killed", (2,))
    assert [arguments for _, request, arguments in job.asked if request == "NotComing"] == [{"worker": 1}]
    assert state.bins_moved == 5, "the others have their share"


def test_a_joiner_that_was_to_leave_again_may_fail():
    with scripted(WITHOUT_BINS) as job:
        starts, dies = job.spawn(), job.spawn()
        leaves_when_told(job, starts)
        scaling = scaling_of(job, ProcessChange(leaves=(2, 1)))
        joins(starts)
        ends(dies)
        scaling.start()
        assert scaling.finished.wait(WAIT_S)
    assert (scaling.state().failure, scaling.state().left) == (None, (1,))


def test_a_joiner_that_takes_too_long_holds_no_bins_up(monkeypatch: pytest.MonkeyPatch):
    """It may still join, and has its share then."""
    monkeypatch.setattr(change, "PATIENCE_S", 0.05)
    first = {**RESCALABLE, "AskGoal": [share(0), share(0, goal("under way", 0, 5, "worker 2 is to join"))]}
    with scripted(first) as job:
        job.spawned = lambda process: joins(process) if process.process == 1 else None
        state = carried_out(job, ProcessChange(joins=2)).state()
    assert (state.failure or "").startswith(
        "nothing has moved for 0.55 s: process 2 is starting; what has begun goes on"
    )
    assert [arguments for _, request, arguments in job.asked if request == "NotComing"] == [{"worker": 2}]


def test_a_leaver_that_fails_is_told():
    with scripted(WITHOUT_BINS, IDLE) as job:
        job.running[1].failure = "process 1 was ended by SIGKILL"
        leaves_when_told(job, job.running[1])
        state = carried_out(job, ProcessChange(leaves=(1,))).state()
    assert state.failure == "process 1 failed while it left: process 1 was ended by SIGKILL"


def test_a_leaver_that_could_not_be_told_is_not_on_its_way():
    with scripted(WITHOUT_BINS, IDLE, {**IDLE, "Leave": [Refusal("worker 2 is busy")]}, IDLE) as job:
        leaves_when_told(job, job.running[1])
        scaling = carried_out(job, ProcessChange(leaves=(1, 2, 3)))
    assert (scaling.state().failure, scaling.leaving_for_good) == ("worker 2 is busy", frozenset({1}))


def test_who_has_been_told_to_leave_is_not_to_be_told_again():
    with scripted(WITHOUT_BINS, IDLE) as job:
        scaling = scaling_of(job, ProcessChange(leaves=(1,)))
        assert (scaling.still_to_leave, scaling.leaving_for_good) == (frozenset({1}), frozenset())
        scaling.start()
        while not job.was_asked("Leave"):
            pass
        assert (scaling.still_to_leave, scaling.leaving_for_good) == (frozenset(), frozenset({1}))
        job.running[1].ended.set()
        assert scaling.finished.wait(WAIT_S)


def test_who_cannot_leave_is_found_before_anything_begins():
    with scripted(IDLE, {**IDLE, "CheckMayLeave": [Refusal("worker 1 cannot leave")]}) as job:
        with pytest.raises(RequestFailed, match="worker 1 cannot leave"):
            scaling_of(job, ProcessChange(leaves=(1,)))
        assert job.was_asked("StartResize") == []


def test_what_does_not_move_is_known_from_the_beginning():
    with scripted({**IDLE, "CheckRescalable": [to_json(Unmoved(("count",)))]}) as job:
        assert scaling_of(job, ProcessChange(joins=1)).unmoved == ("count",)


def test_a_scale_that_is_superseded_tells_nobody_to_leave():
    with scripted({**RESCALABLE, "AskGoal": [share(0), share(0, goal("under way", 0, 5))]}, IDLE) as job:
        scaling = scaling_of(job, ProcessChange(leaves=(1,)))
        scaling.start()
        while not job.was_asked("StartResize"):
            pass
        scaling.supersede("scale to 2")
        assert scaling.finished.wait(WAIT_S)
        assert (scaling.state().failure, scaling.leaving_for_good) == ("superseded by scale to 2", frozenset())
        assert job.was_asked("Leave") == []


@pytest.mark.parametrize("change", [ProcessChange(joins=3), ProcessChange()])
def test_a_scale_that_is_superseded_starts_no_more_processes_and_asks_for_nothing(change: ProcessChange):
    """What it would ask for then would come after what superseded it."""
    with scripted(IDLE) as job:
        scaling = scaling_of(job, change)
        scaling.supersede("scale to 2")
        scaling.start()
        assert scaling.finished.wait(WAIT_S)
        assert (scaling.state().failure, len(job.running)) == ("superseded by scale to 2", 1)
        assert job.was_asked("StartResize") == []
