"""Workers join and leave while records flow: hundreds of random clusters. A failure names its seed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from framework.errors import GraphError
from framework.membership.bootstrap_server import JoinStage
from framework.membership.members import WorkerId
from framework.simulation.cluster import SimulatedCluster, SimulatedPace
from framework.simulation.invariants import Invariants
from framework.worker.worker import Worker
from operators import Input
from tests.sim.rescale_run import run_seed

CHUNK = 40


@pytest.mark.parametrize("first", range(0, 240, CHUNK))
def test_workers_join_leave_and_die_while_they_join(first: int, sim_seed: int | None, sim_trace: int):
    if sim_seed is not None:
        if first == 0:
            run_seed(sim_seed, trace_moves=sim_trace)
        return
    outcomes = [run_seed(seed) for seed in range(first, first + CHUNK)]
    assert sum(outcome.joined for outcome in outcomes) > CHUNK // 2, "hardly anybody joined"
    assert sum(outcome.left for outcome in outcomes) > CHUNK // 4, "hardly anybody left"
    assert sum(outcome.killed for outcome in outcomes) > CHUNK // 8, "hardly anybody died"
    assert sum(outcome.killed_enlisted for outcome in outcomes) > 0, "nobody died for whom records were held back"


@pytest.mark.parametrize("first", range(0, 120, CHUNK))
def test_dataflows_are_built_while_workers_join_and_leave(first: int, sim_seed: int | None, sim_trace: int):
    if sim_seed is not None:
        if first == 0:
            run_seed(sim_seed, trace_moves=sim_trace, second=True)
        return
    outcomes = [run_seed(seed, second=True) for seed in range(first, first + CHUNK)]
    assert sum(outcome.joined for outcome in outcomes) > CHUNK // 2, "hardly anybody joined"


def test_a_worker_cannot_leave_with_records_of_a_dataflow_that_it_has_not_built():
    def program(worker: Worker) -> Iterator[None]:
        first, second = Input[int]("first"), Input[int]("second")
        with worker.dataflow() as scope:
            first.stream(scope)
        if worker.index == 0:
            with worker.dataflow() as scope:
                second.stream(scope).exchange(lambda number: number)
            second.send(1)
            second.flush()
            yield
        else:
            while not worker.early():
                yield
            first.close()
            worker.membership.begin_leave()
            while not worker.membership.gone:
                yield

    with pytest.raises(GraphError, match="worker 1 cannot leave: records came for a dataflow that it has not built"):
        SimulatedCluster(workers=2, seed=1).run(program, moves_max=1_000)


@pytest.mark.parametrize("seed", range(20))
def test_a_joiner_comes_while_a_slow_member_has_yet_to_forget_another(seed: int):
    """The two are served by different members, so that nothing but their turns keeps their messages in order."""
    slow = SimulatedPace(links={(WorkerId(0), WorkerId(1)): 0.15})
    cluster = SimulatedCluster(workers=3, seed=seed, pace=slow)
    died = False

    def program(worker: Worker) -> Iterator[None]:
        nonlocal died
        numbers = Input[int]("numbers")
        with worker.dataflow() as scope:
            numbers.stream(scope).exchange(lambda number: number)
        yield
        while worker.membership.joining:
            yield
        if worker.id == 0:
            cluster.join(WorkerId(3), worker.id, program)
            serving = None
            while (serving is None or serving.stage is not JoinStage.ADMITTED) and 3 not in worker.members.workers:
                yield
                serving = worker.membership.member.serving
            if 3 not in worker.members.workers:
                cluster.kill(WorkerId(3))
            died = True
        elif worker.id == 2:
            while not died:
                yield
            cluster.join(WorkerId(4), worker.id, program)
        while not numbers.closed and (4 not in worker.members.workers or numbers.time < 5):
            numbers.advance_to(numbers.time + 1)
            yield

    with Invariants(cluster) as invariants:
        cluster.run(program, moves_max=20_000)
        invariants.check_ended()
