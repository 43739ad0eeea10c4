"""Plans are carried out on a job that runs, by the worker that sends its commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from framework.launch.config import Config
from framework.launch.execute import execute
from framework.membership.members import WorkerId
from framework.worker.worker import Worker
from operators import ControlInput, Flow, Job
from operators.admin.errors import BadRequest
from operators.control.plan_driver import PlanDriver
from operators.control.worker_messages import PlanState
from operators.job.run_loop import feed_from, run_on_worker
from routing.bins import BinId
from routing.migration.plan import Plan, Step, Transfer
from routing.registry import commanded_on, operators_on

EPOCHS_MAX = 100_000


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(word, total + n)]


def moves(*bins: int, to: int) -> Plan:
    """A step for each bin."""
    return Plan(tuple(Step((Transfer(BinId(bin_id), WorkerId(1 - to), WorkerId(to)),)) for bin_id in bins))


def steered(
    steer: Callable[[PlanDriver, int], bool],
) -> tuple[PlanState, dict[str, Counter[int]], list[tuple[str, int]]]:
    """Feed a job until `steer`, called before every epoch, says that it has seen enough.

    What became of the plan, the owners of each operator's bins then, and the outputs.
    """
    job, rows = Job("counts"), list[tuple[str, int]]()
    ended: list[bool] = []

    @job.dataflow
    def counts(flow: Flow) -> None:
        pairs = flow.input("words").map(lambda word: (word, 1))
        own = ControlInput("own")
        apart = pairs.stateful_state_machine(
            count, initial=0, bins=8, control=own.stream(flow.scope).broadcast(), name="apart"
        )
        together = pairs.stateful_state_machine(count, initial=0, bins=16, name="count")
        flow.output("counts", together)
        flow.output("apart", apart)
        controls.append(own)

    controls: list[ControlInput] = []

    owners: dict[str, Counter[int]] = {}

    def main(worker: Worker) -> PlanState | None:
        flow = job.build(worker, lambda name: lambda epoch, some: rows.extend(some) if name == "counts" else None)
        controls.pop().close()
        driver = PlanDriver(flow)

        def words() -> Iterator[list[str]]:
            for epoch in range(EPOCHS_MAX):
                if ended or (flow.commanding and steer(driver, epoch)):
                    ended.append(True)
                    assert [operator.name for operator in commanded_on(worker)] == ["count"]
                    owners.update({one.name: Counter(map(int, one.table.owners)) for one in operators_on(worker)})
                    return
                yield [f"w{epoch % 40}"] if flow.commanding else []

        run_on_worker(flow, partial(feed_from, {"words": words()}))
        return driver.state()

    state, _ = execute(main, Config(threads=2))
    assert state is not None
    return state, owners, rows


def finished(driver: PlanDriver) -> bool:
    state = driver.state()
    return state is not None and state.finished


def test_the_steps_of_a_plan_follow_each_other_and_counts_stay_right():
    def steer(driver: PlanDriver, epoch: int) -> bool:
        if epoch == 60:
            assert driver.start(moves(0, 2, 4, to=1), gap_s=0.0) == 0
        return finished(driver)

    state, owners, rows = steered(steer)
    assert (state.steps_done, state.bins_moved, state.failure, state.cancelled) == (3, 3, None, False)
    assert state.duration_s >= state.stall_s_max >= 0
    assert owners == {"count": {0: 5, 1: 11}, "apart": {0: 4, 1: 4}}
    final = Counter(word for word, _ in rows)
    assert sorted(rows) == sorted((word, n) for word, total in final.items() for n in range(1, total + 1))


def test_one_plan_at_a_time_and_none_for_bins_or_workers_that_are_not_there():
    def steer(driver: PlanDriver, epoch: int) -> bool:
        if epoch == 1:
            with pytest.raises(BadRequest, match="no plan is under way"):
                driver.cancel()
            with pytest.raises(BadRequest, match="there is no bin 16: operator 'count' has bins 0 to 15"):
                driver.start(moves(16, to=1), gap_s=0.0)
            with pytest.raises(BadRequest, match="there is no worker 5; there are 0, 1"):
                driver.start(moves(3, to=5), gap_s=0.0)
            driver.start(moves(0, 2, to=1), gap_s=0.0)
            with pytest.raises(BadRequest, match="plan 0 is under way"):
                driver.start(moves(3, to=0), gap_s=0.0)
            driver.cancel()
        return finished(driver)

    state, _, _ = steered(steer)
    assert (state.steps_done, state.cancelled) == (1, True)
