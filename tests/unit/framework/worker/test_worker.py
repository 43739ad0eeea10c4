"""A worker over simulated links: stepping, sleeping, several dataflows, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from framework.dataflow.pact import Broadcast, Exchange, Pipeline
from framework.dataflow.scope import Scope
from framework.errors import DataflowMismatch, GraphError, JobAborted, JobStopped, OperatorFailed, PeerLost
from framework.events import DataflowBuilt, DataflowFinished, Event, MessageReceived, MessageSent, Parked
from framework.membership.members import WorkerId
from framework.simulation.network import Network
from framework.wire.messages import Abort, Data, Goodbye, Lost, Progress
from framework.worker.worker import Worker
from tests.unit.framework.dataflow.taps import Catch, Tap, deliver_all, settle, worker_alone, workers


def build(worker: Worker) -> tuple[Tap, Catch]:
    """tap -> catch, by exchange."""
    with worker.dataflow() as scope:
        tap = Tap(scope)
        return tap, Catch(scope, tap.outlet, Exchange(int))


class Sleepy:
    """Notes every park of a worker, and lets something happen during it."""

    def __init__(self, worker: Worker, during: Callable[[], None] = lambda: None) -> None:
        self.timeouts: list[float | None] = []
        transport: Any = worker.transport
        park = transport.park

        def noted(timeout_s: float | None) -> None:
            self.timeouts.append(timeout_s)
            assert len(self.timeouts) < 100, "the worker sleeps for ever"
            park(timeout_s)
            during()

        transport.park = noted


def test_who_one_is():
    peers = workers(3)
    assert [(worker.index, worker.peers) for worker in peers] == [(0, 3), (1, 3), (2, 3)]


def test_a_step_tells_whether_any_dataflow_is_left():
    worker = worker_alone()
    assert not worker.step()
    tap, _ = build(worker)
    assert worker.step()
    tap.close()
    assert worker.step()
    assert not worker.step()
    assert worker.steps == 4


def test_a_worker_with_work_does_not_sleep_and_one_without_does():
    network = Network()
    worker = worker_alone(network)
    tap, catch = build(worker)
    sleepy = Sleepy(worker)
    worker.step_or_park()
    assert sleepy.timeouts == []
    worker.step_or_park()
    assert sleepy.timeouts == [None]
    tap.send(1)
    worker.step_or_park()
    assert (sleepy.timeouts, catch.rows) == ([None], [(0, 1)])
    settle([worker], rounds=2)
    worker.step_or_park(2.5)
    assert sleepy.timeouts == [None, 2.5]


def test_a_worker_without_a_dataflow_does_not_sleep():
    worker = worker_alone()
    sleepy = Sleepy(worker)
    assert not worker.step_or_park()
    assert sleepy.timeouts == []


def test_a_sleep_ends_when_a_timer_is_due():
    network = Network()
    worker = worker_alone(network)
    ran: list[float] = []
    with worker.dataflow() as scope:
        builder = scope.operator("ticks")
        builder.build(lambda _: lambda: ran.append(network.now_s) or True)  # type: ignore[func-returns-value]
    worker.step()
    builder.activator.activate_after(4.0)
    builder.activator.activate_after(1.5)
    sleepy = Sleepy(worker)
    worker.step_or_park()
    worker.step_or_park(1.0)
    worker.step_or_park(9.0)
    assert sleepy.timeouts == [1.5, 1.0, 1.5]
    network.now_s = 1.5
    worker.step_or_park()
    assert sleepy.timeouts[3:] == [0.0]
    assert ran == [0.0, 1.5]
    worker.step_or_park()
    assert sleepy.timeouts[4:] == [2.5]


def test_a_wish_from_another_thread_is_work():
    worker = worker_alone()
    ran: list[str] = []
    with worker.dataflow() as scope:
        builder = scope.operator("listens")
        builder.build(lambda _: lambda: ran.append("ran") or True)  # type: ignore[func-returns-value]
    settle([worker], rounds=2)
    sleepy = Sleepy(worker)
    builder.activator.activate_from_thread()
    worker.step_or_park()
    assert (sleepy.timeouts, ran) == ([], ["ran", "ran"])


def test_what_waits_for_clear_links_runs_when_they_are():
    network = Network(congested_frames=1)
    peers = workers(2, network)
    (tap, _), _ = build(peers[0]), build(peers[1])
    ran: list[bool] = []
    with peers[0].dataflow() as scope:
        builder = scope.operator("polite")
        builder.build(lambda _: lambda: ran.append(peers[0].congested()) or True)  # type: ignore[func-returns-value]
    with peers[1].dataflow() as scope:
        scope.operator("polite").build(lambda _: lambda: True)
    settle(peers, network, rounds=3)
    ran.clear()
    for row in (1, 3, 5):
        tap.send(row)
    peers[0].step()
    assert peers[0].congested()
    builder.activator.activate_when_clear()
    peers[0].step()
    assert ran == []
    sleepy = Sleepy(peers[0])
    peers[0].step_or_park()
    assert (sleepy.timeouts, ran) == ([None], [])
    deliver_all(network)
    peers[0].step_or_park()
    assert (sleepy.timeouts, ran) == ([None], [False])


def test_step_while_goes_on_as_long_as_the_condition_holds():
    worker = worker_alone()
    tap, catch = build(worker)
    sleepy = Sleepy(worker, during=lambda: tap.send(len(catch.rows)))
    worker.step_while(lambda: len(catch.rows) < 3)
    assert [row for _, row in catch.rows] == [0, 1, 2]
    assert len(sleepy.timeouts) == 3
    tap.close()
    worker.step_while(lambda: True)
    assert worker.installed_dataflows() == []


def test_a_worker_cannot_step_within_a_step():
    worker = worker_alone()
    with worker.dataflow() as scope:
        builder = scope.operator("steps")
        builder.build(lambda _: worker.step)
    with pytest.raises(OperatorFailed) as failure:
        worker.step()
    assert isinstance(failure.value.__cause__, AssertionError)


def test_several_dataflows_run_side_by_side_and_end_one_by_one():
    worker = worker_alone()
    built = [build(worker) for _ in range(3)]
    assert worker.installed_dataflows() == [0, 1, 2]
    for number, (tap, _) in enumerate(built):
        tap.send(number)
    built[1][0].close()
    settle([worker], rounds=3)
    assert worker.installed_dataflows() == [0, 2]
    assert [catch.rows for _, catch in built] == [[(0, 0)], [(0, 1)], [(0, 2)]]


def test_dropping_a_dataflow_ends_it_at_once_and_leaves_the_others():
    network = Network()
    peers = workers(2, network)
    first, second = [build(worker) for worker in peers], [build(worker) for worker in peers]
    settle(peers, network, rounds=2)
    first[0][0].send(0, 1, 2, 3)
    second[0][0].send(0, 1, 2, 3)
    peers[0].step()
    peers[1].drop_dataflow(0)
    assert peers[1].installed_dataflows() == [1]
    assert sorted(type(end).__name__ for end in peers[1].channels().values()) == ["InputHandle", "Subgraph"]
    settle(peers, network, rounds=3)  # what still comes in for it is dropped
    assert first[1][1].rows == []
    assert list(first[1][1].queued()) == []
    assert second[1][1].rows == [(0, 1), (0, 3)]
    assert peers[1].early() == []
    peers[0].drop_dataflow(0)
    for tap, _ in second:
        tap.close()
    settle(peers, network, rounds=4)
    assert [worker.installed_dataflows() for worker in peers] == [[], []]


@pytest.mark.parametrize("last_moment", [False, True])
def test_a_dataflow_may_drop_itself(last_moment: bool):
    """Also in the round in which it would have ended anyway."""
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        builder = scope.operator("ends it")
        input = builder.input(tap.outlet, Pipeline())

        def run() -> None:
            taken = [rows for _, rows in input]
            if not input.frontier.frontier() if last_moment else taken:
                worker.drop_dataflow(0)

        builder.build(lambda _: run)
    worker.step()
    tap.send("enough")
    tap.close()
    settle([worker], rounds=3)
    assert worker.installed_dataflows() == []


def test_a_dataflow_that_is_not_there_cannot_be_dropped():
    worker = worker_alone()
    build(worker)
    with pytest.raises(GraphError) as refusal:
        worker.drop_dataflow(7)
    assert str(refusal.value) == "there is no dataflow 7; running are [0]"


def test_what_comes_for_a_dataflow_before_it_is_built_waits():
    network = Network()
    peers = workers(2, network)
    tap, _ = build(peers[0])
    tap.send(1, 2, 3)
    tap.close()
    settle(peers, network, rounds=3)
    assert {type(message) for _, message in peers[1].early()} == {Data, Progress}
    late_tap, catch = build(peers[1])
    assert peers[1].early() == []
    late_tap.close()
    settle(peers, network, rounds=4)
    assert catch.rows == [(0, 1), (0, 3)]
    assert [worker.installed_dataflows() for worker in peers] == [[], []]


def test_a_different_dataflow_is_noticed_whoever_built_first():
    network = Network()
    peers = workers(2, network)
    build(peers[0])
    peers[0].step()
    deliver_all(network)
    peers[1].step()
    noticed = pytest.raises(DataflowMismatch, match=r"workers 0 and 1 built different dataflows \(number 0\)")
    with noticed, peers[1].dataflow() as scope:
        Tap(scope, "another")


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        (Abort("worker 1 divided by zero"), JobAborted, "worker 1 divided by zero"),
        (Lost("connection reset"), PeerLost, "worker 0 lost worker 1: connection reset"),
    ],
)
def test_bad_news_end_a_step(message: Any, error: type[Exception], text: str):
    network = Network()
    worker, _ = workers(2, network)
    network.ends[worker.id].arrived.append((WorkerId(1), message))
    with pytest.raises(error) as end:
        worker.step()
    assert str(end.value) == text
    assert not worker.stepping


def test_a_stop_is_work_and_ends_the_next_step():
    worker = worker_alone()
    build(worker)
    settle([worker], rounds=2)
    sleepy = Sleepy(worker)
    worker.request_stop("SIGTERM")
    with pytest.raises(JobStopped, match="SIGTERM"):
        worker.step_or_park()
    assert sleepy.timeouts == []


def test_aborting_tells_the_peers_and_drops_everything():
    network = Network()
    peers = workers(3, network)
    for worker in peers:
        build(worker)
    peers[1].abort("it failed")
    assert peers[1].installed_dataflows() == []
    deliver_all(network)
    for worker in (peers[0], peers[2]):
        with pytest.raises(JobAborted, match="it failed"):
            worker.step()


def test_finishing_closes_completes_and_waits_for_the_peers_goodbye():
    network = Network()
    peers = workers(2, network)
    taps = []
    for worker in peers:
        tap, _ = build(worker)
        worker.on_finish(tap.close)
        taps.append(tap)
    said_goodbye: list[int] = []

    def meanwhile() -> None:
        """While worker 0 sleeps, worker 1 gets to act."""
        deliver_all(network)
        if peers[1].installed_dataflows():
            peers[1].close_inputs()
            peers[1].step()
        elif not said_goodbye:
            peers[1].step()
            said_goodbye.append(1)
            network.ends[peers[1].id].send(peers[0].id, Goodbye())
            network.ends[peers[1].id].flush()
        deliver_all(network)

    Sleepy(peers[0], during=meanwhile)
    peers[0].finish()
    assert said_goodbye == [1]
    assert [worker.installed_dataflows() for worker in peers] == [[], []]


def test_closing_inputs_calls_back_once():
    worker = worker_alone()
    calls: list[int] = []
    worker.on_finish(lambda: calls.append(1))
    worker.close_inputs()
    worker.close_inputs()
    assert calls == [1]


def test_events_of_a_dataflow_from_beginning_to_end():
    network = Network()
    peers = workers(2, network)
    events: list[tuple[int, Event]] = []
    for worker in peers:
        worker.events.subscribe(lambda id_, _, event: events.append((id_, event)))
    (tap, _), (other, _) = build(peers[0]), build(peers[1])
    tap.send(1, 3)
    for end in (tap, other):
        end.close()
    settle(peers, network, rounds=4)
    peers[0].step_or_park()
    kinds = (DataflowBuilt, DataflowFinished, MessageSent, MessageReceived, Parked)
    built = DataflowBuilt(0, "dataflow", (("0.1", "tap"), ("0.2", "catch")))
    assert [event for event in events if isinstance(event[1], kinds)] == [
        (0, built),
        (1, built),
        (0, MessageSent(1, WorkerId(1), 2)),
        (1, MessageReceived(1, WorkerId(0), 2)),
        (0, DataflowFinished(0)),
        (1, DataflowFinished(0)),
    ]


def test_a_broadcast_that_a_peer_has_not_built_yet_reaches_it():
    network = Network()
    peers = workers(2, network)

    def broadcasting(worker: Worker) -> tuple[Tap, Catch]:
        with worker.dataflow() as scope:
            tap = Tap(scope)
            return tap, Catch(scope, tap.outlet, Broadcast())

    tap, here = broadcasting(peers[0])
    tap.send("x")
    tap.close()
    settle(peers, network, rounds=2)
    other, there = broadcasting(peers[1])
    other.close()
    settle(peers, network, rounds=4)
    assert here.rows == there.rows == [(0, "x")]


def test_a_failure_while_building_leaves_no_dataflow():
    worker = worker_alone()

    def fail(scope: Scope) -> None:
        Tap(scope)
        raise KeyError

    with pytest.raises(KeyError), worker.dataflow() as scope:
        fail(scope)
    assert worker.installed_dataflows() == []
    tap, catch = build(worker)
    tap.send(1)
    tap.close()
    settle([worker], rounds=4)
    assert catch.rows == [(0, 1)]
