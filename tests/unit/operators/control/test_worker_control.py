"""What a worker answers its supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from framework.launch.execute import execute
from framework.worker.worker import Worker
from operators import Flow, Job
from operators.admin.errors import BadRequest
from operators.control.worker_control import WorkerControl
from operators.control.worker_messages import (
    REQUESTS,
    AskBins,
    AskBroker,
    AskExplanation,
    AskPlan,
    AskProgress,
    AskRescale,
    AskStatus,
    BeginRescale,
    CancelPlan,
    CheckMayLeave,
    EndInputs,
    Leave,
    MovableBins,
    PlanShare,
    Request,
    RescaleShare,
    RunPlan,
    WorkerProgress,
)
from operators.job.run_loop import feed_from, run_on_worker
from routing.migration.plan import Plan

NO_PLAN = Plan(())


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(word, total + n)]


QUESTIONS = [AskProgress(), AskStatus(), AskExplanation(None), AskBins(), AskPlan(), AskRescale(), AskBroker()]
ACTIONS = [RunPlan(NO_PLAN, 0.0), CancelPlan(), BeginRescale(), CheckMayLeave(), Leave(), EndInputs()]


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
        assert control.answer(AskPlan()) == PlanShare(None, 0)
        assert control.answer(AskRescale()) == RescaleShare(0, None, None)
        assert control.answer(AskBins()) == ()
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
            with pytest.raises(BadRequest, match="no plan is under way"):
                control.answer(CancelPlan())
            assert control.answer(AskRescale()).cost is None
            assert control.answer(BeginRescale()) is None
            cost = control.answer(AskRescale()).cost
            assert cost is not None
            assert (cost.joined, cost.waiting, cost.bins_moved) == ((), (), 0)
            assert control.answer(RunPlan(NO_PLAN, 0.0)) == 0
            status = control.answer(AskStatus())
            assert status.plan == control.answer(AskProgress()).plan == control.answer(AskPlan()).plan
            assert [(table.name, table.owners) for table in status.bins] == [("count", (0, 0))]
            assert control.answer(AskExplanation("count")).name == "count"
            seen.append(control.answer(AskBins()))

        run_on_worker(flow, partial(feed_from, {"words": words()}))
        return seen

    [[(bins,)]] = execute(main)
    assert isinstance(bins, MovableBins)
    assert (bins.name, bins.owners, bins.ahead, bins.shipped_bytes) == ("count", (0, 0), (0, 0), 0)
