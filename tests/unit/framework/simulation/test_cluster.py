"""The simulated cluster: the same seed, the same moves; sleep as in production; a failure that can be replayed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from framework.dataflow.capability import Capability
from framework.dataflow.operator import OperatorLogic
from framework.dataflow.pact import Exchange
from framework.membership.members import WorkerId
from framework.progress.order import Time
from framework.simulation.cluster import SimulatedCluster, SimulatedPace, SimulatedProgram, SimulationStuck
from framework.simulation.network import Network, SimulatedTransport
from framework.wire.messages import Data, Goodbye, Message, Progress
from framework.worker.worker import Worker
from tests.unit.framework.dataflow.taps import Catch, Tap

A, B = WorkerId(0), WorkerId(1)


def counting(rows: int, caught: list[Catch]) -> SimulatedProgram:
    """Every worker sends so many rows, each at an epoch of its own."""

    def program(worker: Worker) -> Iterator[None]:
        with worker.dataflow() as scope:
            tap = Tap(scope)
            caught.append(Catch(scope, tap.outlet, Exchange(int)))
        for row in range(rows):
            yield
            tap.send(row)
            tap.advance(row + 1)
        tap.close()

    return program


def moves_of(seed: int) -> tuple[int, list[list[tuple[Time, Any]]]]:
    cluster = SimulatedCluster(workers=3, seed=seed, pace=SimulatedPace.uneven(Random(seed), 3))
    caught: list[Catch] = []
    cluster.run(counting(4, caught))
    return cluster.moves, [catch.rows for catch in caught]


def test_one_seed_is_one_run():
    assert moves_of(5) == moves_of(5)
    assert len({moves_of(seed)[0] for seed in range(5)}) > 1


def test_checks_hear_who_moved_and_when_nothing_is_left_to_do():
    cluster = SimulatedCluster(workers=2, seed=3)
    moved: list[int] = []
    settled: list[int] = []
    cluster.after_move.append(moved.append)
    cluster.when_settled.append(lambda: settled.append(cluster.moves))
    cluster.run(counting(3, []))
    assert set(moved) == {0, 1}
    assert 0 < len(moved) < cluster.moves
    assert all(not cluster.network.busy() for _ in settled)


def test_a_failure_tells_its_seed_its_replay_and_its_last_moves():
    cluster = SimulatedCluster(workers=2, seed=42, replay="pytest --sim-seed 42", trace_moves=3)

    def fail(_: WorkerId) -> None:
        assert cluster.moves < 9, "something is wrong"

    cluster.after_move.append(fail)
    with pytest.raises(AssertionError, match="something is wrong") as failure:
        cluster.run(counting(20, []))
    [story] = failure.value.__notes__
    lines = story.splitlines()
    assert lines[:3] == [f"seed 42, move {cluster.moves}", "replay with: pytest --sim-seed 42", "the last moves:"]
    assert [line.split(":")[0].strip() for line in lines[3:]] == [str(cluster.moves - back) for back in (2, 1, 0)]
    for worker in cluster.workers.values():
        worker.shut_down()


def test_a_cluster_in_which_everybody_sleeps_is_stuck():
    def program(worker: Worker) -> Iterator[None]:
        with worker.dataflow() as scope:
            builder = scope.operator("never lets go")
            builder.output()

            def start(capabilities: list[Capability]) -> OperatorLogic:
                builder.operator.on_shut_down.append(capabilities[0].drop)
                return lambda: None

            builder.build(start, capabilities=True)
        yield

    cluster = SimulatedCluster(workers=2, seed=1)
    with pytest.raises(SimulationStuck, match="all workers sleep, nothing is under way, and yet"):
        cluster.run(program)
    for worker in cluster.workers.values():
        worker.shut_down()


def test_a_cluster_that_never_comes_to_an_end_is_stuck():
    def program(worker: Worker) -> Iterator[None]:
        with worker.dataflow() as scope:
            builder = scope.operator("restless")

            def run() -> bool:
                builder.activator.activate()
                return True

            builder.build(lambda _: run)
        yield

    cluster = SimulatedCluster(workers=1, seed=1)
    with pytest.raises(SimulationStuck, match="not complete after 200 moves"):
        cluster.run(program, moves_max=200)


def test_when_all_sleep_the_clock_goes_on_to_the_next_timer():
    times: list[float] = []

    def program(worker: Worker) -> Iterator[None]:
        with worker.dataflow() as scope:
            builder = scope.operator("ticks")

            def run() -> bool:
                times.append(cluster.network.now_s)
                builder.activator.activate_after(3600.0)
                return len(times) < 4

            builder.build(lambda _: run)
        yield

    cluster = SimulatedCluster(workers=1, seed=0)
    cluster.run(program)
    assert [round(time / 3600) for time in times] == [0, 1, 2, 3]


def test_links_are_first_in_first_out_and_show_what_is_under_way():
    network = Network(congested_frames=1)
    a, b = SimulatedTransport(A, network), SimulatedTransport(B, network)
    messages: list[Message] = [Data(3, 0, [(1, "x")]), Progress(2, 0, ((1, 0, -1),)), Data(3, 1, [2, 3])]
    for message in messages:
        a.send(B, message)
    assert (network.busy(), b.receive(), a.congested()) == ([], [], False)
    a.flush()
    b.send(A, Goodbye())
    assert list(network.under_way()) == [*((A, B, message) for message in messages), (B, A, Goodbye())]
    assert (network.busy(), a.congested(), b.congested()) == ([(A, B)], True, False)
    assert [network.deliver((A, B)) for _ in range(2)] == messages[:2]
    assert not a.congested()
    assert b.receive() == [(A, messages[0]), (A, messages[1])]
    assert b.receive() == []
    assert network.deliver((A, B)) == messages[2]


def test_a_worker_sleeps_until_something_wakes_it():
    network = Network(congested_frames=0)
    a, b = SimulatedTransport(A, network), SimulatedTransport(B, network)

    def asleep(end: SimulatedTransport) -> bool:
        return end.asleep_until_s() > network.now_s

    assert not asleep(a)
    a.park(2.0)
    assert asleep(a)
    network.now_s = 2.0
    assert not asleep(a)
    a.park(None)
    network.now_s = 1e9
    assert asleep(a)
    a.wake()
    assert not asleep(a)
    a.send(B, Goodbye())
    a.flush()
    for end in (a, b):
        end.park(None)
    network.deliver((A, B))
    assert not asleep(b), "something arrived"
    assert not asleep(a), "its link takes more"
    b.park(None)
    assert not asleep(b), "what arrived is still there"
