"""What a job is asked for by several, one after the other or at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from framework.errors import RequestFailed
from framework.membership.members import WorkerId
from operators.admin.errors import BadRequest
from operators.admin.json_codec import to_json
from operators.control.job_messages import Answer
from operators.control.job_service import ChangeOptions, JobService
from operators.control.worker_messages import MovableBins, MoveObstacles, Unmoved
from routing.bins import BinId
from routing.load import BinWeight
from routing.migration.goals import Pace
from tests.unit.operators.control.scripted import (
    IDLE,
    RESCALABLE,
    WAIT_S,
    Refusal,
    Scripted,
    goal,
    joins,
    scripted,
    share,
)

NO_BINS: dict[str, list[Any]] = {"AskBins": [[]]}
UNDER_WAY = {**RESCALABLE, **NO_BINS, "AskGoal": [share(0), share(0, goal("under way", 0, 5))]}
REACHED = {**RESCALABLE, **NO_BINS, "AskGoal": [share(0), share(0, goal("reached", 5, 5))]}
DRY = ChangeOptions(Pace("all-at-once"), dry_run=True)


def until(condition: Callable[[], object]) -> None:
    tried = threading.Event()
    for _ in range(2000):
        if condition():
            return
        tried.wait(WAIT_S / 2000)
    raise AssertionError("it did not come about")


def ended(service: JobService, number: int | None) -> tuple[bool, str | None]:
    assert number is not None
    until(lambda: service.change(number).finished)
    return service.change(number).cancelled, service.change(number).failure


def starting(job: Scripted) -> list[int]:
    return [process.process for process in job.running if not process.member]


def test_a_second_scale_takes_over_from_the_first():
    """What starts, joins; what it would have started beside that, does not."""
    with scripted(UNDER_WAY) as job:
        service = JobService("it", job)
        first = service.scale(3)
        assert (first.joins, first.leaves) == (2, ())
        until(lambda: starting(job) == [1, 2] and job.was_asked("StartResize"))
        second = service.scale(4)
        assert (second.joins, second.leaves) == (1, ())
        assert ended(service, first.number) == (False, "superseded by scale to 4")
        until(lambda: len(job.was_asked("StartResize")) == 2)
        asked = [arguments["joining"] for _, request, arguments in job.asked if request == "StartResize"]
        assert asked == [[1, 2], [1, 2, 3]]


def test_a_scale_back_to_what_there_is_keeps_those_that_were_to_leave():
    with scripted(UNDER_WAY, {**IDLE, **NO_BINS}) as job:
        service = JobService("it", job)
        first = service.scale(1)
        until(lambda: job.was_asked("StartResize"))
        second = service.scale(2)
        assert (second.joins, second.leaves) == (0, ())
        assert ended(service, first.number) == (False, "superseded by scale to 2")
        until(lambda: len(job.was_asked("StartResize")) == 2)
        asked = [(each["joining"], each["leaving"]) for _, request, each in job.asked if request == "StartResize"]
        assert asked == [([], [1]), ([], [])]
        assert job.was_asked("Leave") == []


def test_those_that_were_told_to_leave_count_no_more_whoever_asks():
    """Be it the next but one."""
    with scripted(REACHED, {**IDLE, **NO_BINS}, {**IDLE, **NO_BINS}, joiner={**IDLE, **NO_BINS}) as job:
        service = JobService("it", job)
        service.scale(2)
        until(lambda: job.was_asked("Leave") == [2])
        answers = [service.scale(3)]
        until(lambda: starting(job) == [3])  # else the next one takes over, and starts it
        answers += [service.scale(3), service.scale(3, DRY)]
        assert [(answer.joins, answer.leaves) for answer in answers] == [(1, ()), (0, ()), (0, ())]


def test_a_second_leave_takes_over_the_first():
    idle = {**IDLE, **NO_BINS}
    with scripted(UNDER_WAY, idle, idle) as job:
        service = JobService("it", job)
        first = service.leave(1)
        until(lambda: job.was_asked("StartResize"))
        second = service.leave(2)
        assert (first.leaves, second.leaves) == ((1,), (2, 1))
        assert ended(service, first.number) == (False, "superseded by leave of worker 2")
        until(lambda: len(job.was_asked("StartResize")) == 2)
        assert [each["leaving"] for _, request, each in job.asked if request == "StartResize"] == [[1], [2, 1]]


def test_a_scale_whose_processes_start_can_be_cancelled():
    """There is no goal yet that the workers know."""
    none = Refusal("no bins are being moved")
    first = {**RESCALABLE, **NO_BINS, "StartResize": [None], "AskGoal": [share(0)], "CancelGoals": [none]}
    with scripted(first, joiner={**IDLE, **NO_BINS}) as job:
        service = JobService("it", job)
        number = service.scale(2).number
        until(lambda: job.was_asked("StartResize"))
        assert service.cancel() == ()
        assert ended(service, number) == (False, "cancelled; processes that have started join")
        with pytest.raises(RequestFailed, match="no bins are being moved"):
            service.cancel()


def test_a_dry_run_says_who_cannot_leave():
    first = {**REACHED, "CheckMayLeave": [Refusal("worker 0 cannot leave")]}
    with scripted(first, IDLE) as job, pytest.raises(RequestFailed, match="worker 0 cannot leave"):
        JobService("it", job).leave(0, DRY)


def test_as_many_as_there_are_is_nothing_to_do_once_all_is_settled():
    with scripted({**REACHED, "CheckRescalable": [to_json(Unmoved(("count",)))]}, joiner={**IDLE, **NO_BINS}) as job:
        job.spawned = joins
        service = JobService("it", job)
        assert service.scale(1) == Answer()
        assert ended(service, service.scale(2).number) == (False, None)
        assert service.scale(2) == Answer()
        assert service.scale(3, DRY).unmoved == ("count",)


def test_changes_that_are_asked_for_at_once_have_numbers_of_their_own():
    start = {"AskObstacles": [to_json(MoveObstacles((), ()))], "StartAssign": [0], "StartRebalance": [1]}
    with scripted({**REACHED, **start}) as job:
        service, numbers = JobService("it", job), list[int | None]()
        asking = [threading.Thread(target=lambda: numbers.append(service.move([0], 0).number)) for _ in range(20)]
        for each in asking:
            each.start()
        for each in asking:
            each.join(WAIT_S)
        assert sorted(number for number in numbers if number is not None) == [*range(20)]
        with pytest.raises(BadRequest, match="there is no change 20 of this job, or it is long over"):
            service.change(20)


def test_a_command_for_a_bin_that_cannot_leave_is_refused_before_anything_moves():
    """Those that a worker had no time for are asked for again."""
    found = "bin 1 of operator 'count' cannot leave worker 0: it holds a lock"
    tables = to_json((bins("few", 0, 0), bins("all", 0, 0, 0, 0, 1, 2)))
    first = [to_json(MoveObstacles((), (BinId(1), BinId(2)))), to_json(MoveObstacles((found,), ()))]
    other = {**IDLE, "AskObstacles": [to_json(MoveObstacles((), ()))]}
    with scripted({**REACHED, "AskBins": [tables], "AskObstacles": first}, other, other) as job:
        with pytest.raises(BadRequest, match=f"{found}; no bin was moved, and the job goes on"):
            JobService("it", job).move([0, 1, 2, 4, 5], 1, ChangeOptions(group="all"))
        asked = [(number, each) for number, request, each in job.asked if request == "AskObstacles"]
        assert asked == [
            (0, {"bins": [0, 1, 2], "group": "all"}),
            (2, {"bins": [5], "group": "all"}),
            (0, {"bins": [1, 2], "group": "all"}),
        ]
        assert job.was_asked("StartAssign") == []


def test_bins_that_stay_are_not_asked_about():
    tables = to_json((bins("all", 0, 0, 1),))
    with scripted({**REACHED, "AskBins": [tables], "StartAssign": [0]}, IDLE) as job:
        service = JobService("it", job)
        service.move([0, 1], 0)
        service.map([0, 0, 1])
        assert job.was_asked("StartAssign") == [0, 0]


def test_a_scale_is_not_begun_if_a_leaver_has_a_bin_that_cannot_leave():
    """Only those that leave are asked."""
    table = to_json((bins("all", 0, 1),))
    leaver = {**IDLE, "AskBins": [table], "AskObstacles": [to_json(MoveObstacles(("bin 1 has a lock",), ()))]}
    with scripted({**UNDER_WAY, "AskBins": [table]}, leaver) as job:
        service = JobService("it", job)
        number = service.scale(1).number
        assert ended(service, number) == (False, "bin 1 has a lock; no bin was moved, and the job goes on")
        assert job.was_asked("AskObstacles") == [1]
        assert job.was_asked("StartResize") == []


def bins(group: str, *owners: int) -> MovableBins:
    weights = {BinId(index): BinWeight(1, 100) for index in range(len(owners))}
    return MovableBins(group, tuple(map(WorkerId, owners)), (WorkerId(0),), weights)


def shown(answer: Answer) -> dict[str, dict[int, int]]:
    """Which bin would go where, by group."""
    return {
        group: {each.bin_id: each.target for step in plan.steps for each in step.transfers}
        for group, plan in (answer.plans or {}).items()
    }


def test_a_dry_run_shows_what_would_move_and_changes_nothing():
    first = {**IDLE, "AskBins": [to_json((bins("few", 0, 0), bins("many", 0, 0, 0, 0)))]}
    with scripted(first) as job:
        service = JobService("it", job)
        assert shown(service.scale(2, DRY)) == {"few": {1: 1}, "many": {2: 1, 3: 1}}
        assert shown(service.rebalance(DRY)) == {"few": {}, "many": {}}
        few = ChangeOptions(Pace(), group="few", dry_run=True)
        assert shown(service.map([0, 0], few)) == {"few": {}}
        with pytest.raises(BadRequest, match="say which one, with --group: few, many"):
            service.move([0], 0, DRY)
        with pytest.raises(BadRequest, match="there is no group 'feww' of operators; there are 'few', 'many'"):
            service.move([0], 0, ChangeOptions(Pace(), group="feww", dry_run=True))
        with pytest.raises(BadRequest, match="there are 2 bins, but 3 owners; name one for each bin"):
            service.map([0, 0, 0], few)
        with pytest.raises(BadRequest, match="there is no bin 2; the bins are 0 to 1"):
            service.move([2], 0, few)
        assert {request for _, request, _ in job.asked} == {"AskBins", "CheckRescalable"}
        assert len(job.running) == 1


def test_a_dry_run_without_bins():
    with scripted({**IDLE, "AskBins": [[]]}) as job:
        service = JobService("it", job)
        assert service.rebalance(DRY).plans == {}
        with pytest.raises(BadRequest, match="no operator of this job keeps its state on bins that can be moved"):
            service.move([0], 0, DRY)
