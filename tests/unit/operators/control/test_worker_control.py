"""What a worker answers its supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from framework.launch.execute import execute
from framework.membership.members import WorkerId
from framework.worker.worker import Worker
from operators import Flow, Job
from operators.admin.errors import BadRequest
from operators.control.worker_control import WorkerControl
from operators.control.worker_messages import (
    REQUESTS,
    AskBins,
    AskBroker,
    AskExplanation,
    AskGoal,
    AskObstacles,
    AskProgress,
    AskStatus,
    CancelGoals,
    CheckMayLeave,
    CheckRescalable,
    EndInputs,
    GoalShare,
    Leave,
    MovableBins,
    MoveObstacles,
    NotComing,
    Request,
    StartAssign,
    StartRebalance,
    StartResize,
    Unmoved,
    WorkerProgress,
)
from operators.job.run_loop import feed_from, run_on_worker
from routing.bins import BinId, Bins
from routing.load import BinWeight
from routing.migration.goals import Pace

PACE = Pace()


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(word, total + n)]


QUESTIONS = [
    AskProgress(),
    AskStatus(),
    AskExplanation(None),
    AskBins(),
    AskGoal(0),
    AskObstacles(()),
    AskBroker(),
    CheckRescalable(),
    StartResize("scale to 2", (), (), PACE),
]
"""Without a dataflow, the last has nothing to do."""
ACTIONS = [
    StartAssign("move", None, {}, False, PACE),
    StartRebalance("rebalance", PACE),
    NotComing(WorkerId(1)),
    CancelGoals(),
    CheckMayLeave(),
    Leave(),
    EndInputs(),
]


def test_each_request_is_a_question_or_an_action():
    assert {type(request) for request in [*QUESTIONS, *ACTIONS]} == set(REQUESTS.values())


@pytest.mark.parametrize("request_", ACTIONS)
def test_before_the_dataflow_is_built_nothing_can_be_done(request_: Request[object]):
    def main(worker: Worker) -> None:
        with pytest.raises(BadRequest, match="the dataflow of worker 0 is not built yet; ask again in a moment"):
            WorkerControl(worker).answer(request_)

    execute(main)


def test_before_the_dataflow_is_built_there_is_little_to_tell():
    def main(worker: Worker) -> None:
        control = WorkerControl(worker)
        assert control.answer(AskProgress()) == WorkerProgress((), None)
        assert control.answer(AskStatus()).operators == ()
        with pytest.raises(BadRequest, match="no dataflow runs on this job's workers now"):
            control.answer(AskExplanation(None))
        assert control.answer(AskGoal(0)) == GoalShare(0, None, None)
        assert control.answer(CheckRescalable()) == Unmoved(())
        assert control.answer(StartResize("scale to 2", (), (), PACE)) is None
        assert control.answer(AskBins()) == ()
        assert control.answer(AskObstacles((BinId(0),))) == MoveObstacles((), ())
        assert control.answer(AskBroker()) is None

    execute(main)


def test_a_job_that_runs_answers():
    job = Job("counts")

    @job.dataflow
    def counts(flow: Flow) -> None:
        pairs = flow.input("words").map(lambda word: (word, 1))
        flow.output("counts", pairs.stateful_state_machine(count, initial=0, bins=2, name="count"))

    def main(worker: Worker) -> list[Any]:
        flow = job.build(worker, lambda _: lambda epoch, some: None)
        control, seen = WorkerControl(worker), list[Any]()
        control.attach(flow)

        def words() -> Iterator[list[str]]:
            yield ["a", "b"]
            with pytest.raises(BadRequest, match="this job is not open to others; start it with --serve"):
                control.answer(AskBroker())
            with pytest.raises(BadRequest, match="this job is not open to others; start it with --serve"):
                control.answer(EndInputs())
            with pytest.raises(BadRequest, match="worker 0 cannot leave: it feeds the job"):
                control.answer(CheckMayLeave())
            with pytest.raises(BadRequest, match="no bins are being moved"):
                control.answer(CancelGoals())
            with pytest.raises(BadRequest, match="there is no bin 2; the bins are 0 to 1"):
                control.answer(StartAssign("move", None, {BinId(2): WorkerId(0)}, False, PACE))
            assert control.answer(AskProgress()).goal is None
            assert control.answer(StartAssign("map", None, {BinId(0): WorkerId(0)}, False, PACE)) == 0
            assert control.answer(StartRebalance("rebalance", PACE)) == 1
            assert control.answer(StartResize("scale to 2", (WorkerId(1),), (), PACE)) == 2
            goal = control.answer(AskProgress()).goal
            assert goal is not None
            assert (goal.number, goal.text, goal.status) == (2, "scale to 2", "under way")
            assert control.answer(AskGoal(2)) == GoalShare(0, None, goal)
            assert control.answer(NotComing(WorkerId(1))) is None
            ended = control.answer(CancelGoals())
            assert [(goal.number, goal.status) for goal in ended] == [
                (0, "cancelled"),
                (1, "cancelled"),
                (2, "cancelled"),
            ]
            status = control.answer(AskStatus())
            assert [(table.name, table.owners) for table in status.bins] == [("count", (0, 0))]
            assert control.answer(AskExplanation("count")).name == "count"
            seen.append(control.answer(AskBins()))

        run_on_worker(flow, partial(feed_from, {"words": words()}))
        return seen

    [[(bins,)]] = execute(main)
    assert isinstance(bins, MovableBins)
    assert (bins.group, bins.owners, bins.eligible) == ("bins2", (0, 0), (0,))
    assert all(type(weight) is BinWeight for weight in bins.weights.values())


def test_a_worker_says_which_bins_could_not_leave_and_which_it_has_not_looked_at():
    """It looks for as long as a job may stand still: here, at one bin at a time."""
    job = Job("hiding")

    @job.dataflow
    def hiding(flow: Flow) -> None:
        def keep(key: int, hidden: bool, state: Any) -> tuple[Any, list[Any]]:
            return [object() if hidden else 1], []

        flow.output("none", flow.input("pairs").stateful_state_machine(keep, initial=0, bins=4, name="keep"))

    hidden = next(key for key in range(100) if Bins(4).of(key) == 2)
    plain = [(key, False) for key in range(100)]

    def main(worker: Worker) -> None:
        flow = job.build(worker, lambda _: lambda epoch, some: None)
        control, bins = WorkerControl(worker), tuple(map(BinId, range(4)))
        control.attach(flow)

        def pairs() -> Iterator[list[Any]]:
            yield plain
            yield [(hidden, True)]
            worker.step_while(lambda: flow.probe.less_than(2))
            found = [control.answer(AskObstacles((bin_id,))) for bin_id in bins]
            assert [each.left for each in found] == [()] * 4
            assert [len(each.found) for each in found] == [0, 0, 1, 0]
            begin = "bin 2 of operator 'keep' cannot leave worker 0: the state of key "
            assert found[2].found[0].startswith(f"{begin}{hidden}, a list, cannot be encoded: a object; make it of")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("operators.control.worker_status.PAUSE_S", -1.0)
                assert control.answer(AskObstacles(bins)) == MoveObstacles((), bins[1:])

        run_on_worker(flow, partial(feed_from, {"pairs": pairs()}))

    execute(main)
