"""The invariants notice: each is broken by hand, in a cluster that was fine until then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from framework.dataflow.capability import Capability
from framework.dataflow.pact import Exchange, Pipeline
from framework.dataflow.scope import Outlet, Scope
from framework.membership.members import WorkerId
from framework.progress.location import Source, Target
from framework.progress.order import Product
from framework.progress.subgraph import Subgraph
from framework.simulation.cluster import SimulatedCluster
from framework.simulation.invariants import Invariants
from framework.simulation.truth import implied
from framework.wire.messages import Data, Progress
from framework.worker.worker import Worker
from tests.unit.framework.dataflow.taps import Catch, Tap, deliver_all

A, B = WorkerId(0), WorkerId(1)


def slow(scope: Scope, outlet: Outlet) -> Any:
    """An operator that does not take its records."""
    builder = scope.operator("slow")
    handle = builder.input(outlet, Exchange(int))
    builder.output()
    builder.build(lambda _: lambda: None)
    return handle


class Lab:
    """Two workers, each with tap -> slow and tap -> scope [catch] -> catch, and the invariants that watch them."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(workers=2, seed=0)
        self.invariants = Invariants(self.cluster)
        self.taps: list[Tap] = []
        self.handles: list[Any] = []
        for worker in self.cluster.workers.values():
            self._build(worker)
        self.settle()

    def _build(self, worker: Worker) -> None:
        with worker.dataflow() as scope:
            tap = Tap(scope)
            self.taps.append(tap)
            self.handles.append(slow(scope, tap.outlet))
            with scope.iterative() as inner:
                source = Tap(inner, "inner tap")
                entered = inner.enter(tap.outlet)
                Catch(inner, entered, Exchange(int))
                self.inner = source
                left = inner.leave(source.outlet)
            Catch(scope, left)

    def step(self, worker: WorkerId = A) -> None:
        self.cluster.workers[worker].step()
        self.invariants.check(worker)

    def advance(self, time: int, *workers: WorkerId) -> None:
        for worker in workers or (A, B):
            self.taps[worker].advance(time)
            self.invariants.check(worker)

    def settle(self) -> None:
        for _ in range(4):
            for worker in self.cluster.workers:
                self.step(worker)
            deliver_all(self.cluster.network)

    def order(self) -> None:
        """The invariants of order alone, for worker 1."""
        moment = self.invariants._take_stock([B])
        [dataflow] = self.invariants._claimed()
        self.invariants._check_order(dataflow, moment, B)

    def root(self, worker: WorkerId = A) -> Subgraph:
        return self.cluster.workers[worker].dataflows()[0]

    def nested(self, worker: WorkerId = A) -> Subgraph:
        [nested] = [child.operator for child in self.root(worker).children() if isinstance(child.operator, Subgraph)]
        return nested

    def location(self, place: Source | Target) -> int:
        return self.root().compiled.ids[place]


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    with lab.invariants:
        yield lab
    for worker in lab.cluster.workers.values():
        worker.shut_down()


def noticed(lab: Lab, text: str, check: Callable[[], None] | None = None) -> None:
    with pytest.raises(AssertionError, match=text):
        (check or (lambda: lab.invariants.check(A)))()


def test_all_is_well(lab: Lab):
    lab.taps[0].send(0, 1, 2)
    lab.taps[0].advance(3)
    lab.settle()
    lab.invariants.check_settled()
    assert lab.invariants.checks > 8


def test_a_record_that_vanishes(lab: Lab):
    lab.taps[0].send(0)
    lab.step()
    lab.handles[0].queued().clear()
    noticed(lab, r"target 0 of 'slow' \(0.2\) at 0: 1 accounted for, 0 exist")


def test_a_record_that_comes_from_nowhere(lab: Lab):
    lab.handles[0].push(0, ["x"])
    noticed(lab, r"target 0 of 'slow' \(0.2\) at 0: 0 accounted for, 1 exist")


def test_a_record_that_is_lost_on_its_way(lab: Lab):
    lab.taps[0].send(1)
    lab.step()
    links = lab.cluster.network.links[A, B]
    for message in [message for message in links if isinstance(message, Data)]:
        links.remove(message)
    noticed(lab, "accounted for, 0 exist")


def test_a_capability_that_is_not_accounted_for(lab: Lab):
    clone = lab.taps[0].capability.clone()
    lab.step()
    clone._held = False
    noticed(lab, r"source 0 of 'tap' \(0.1\) at 0: 3 accounted for, 2 exist")


def test_a_frontier_that_has_passed_what_still_exists(lab: Lab):
    place = lab.location(Source(1, 0))
    tracker = lab.root(B).ledger().tracker
    tracker.update(place, 0, -2)
    tracker.propagate()
    noticed(
        lab,
        r"on worker 1, the frontier at source 0 of 'tap' \(0.1\) is \(\), but 0 could still",
        lambda: lab.invariants.check(B),
    )


def test_an_operator_that_was_told_too_much(lab: Lab):
    lab.handles[0].frontier.update(0, -1)
    noticed(lab, r"on worker 0, what the operator was told at target 0 of 'slow' \(0.2\) is \(\), but 0 could still")


def test_a_nested_scope_that_does_not_say_what_it_holds(lab: Lab):
    lab.root().ledger().tracker.update(lab.location(Source(3, 0)), 5, 1)
    noticed(lab, "at the outputs of scope 0.3 stands .* its inside implies")


def test_a_pointstamp_inside_a_nested_scope_that_nothing_stands_behind(lab: Lab):
    inside = lab.nested().compiled.ids[Source(1, 0)]
    lab.nested().ledger().tracker.update(inside, Product(5, 0), 1)
    noticed(lab, r"worker 0, scope 0.3: source 0 of 'inner tap' \(0.3.1\) at \(5, 0\): 1 accounted for, 0 exist")


def test_a_batch_that_is_lost(lab: Lab):
    lab.advance(1)
    lab.step()
    links = lab.cluster.network.links[A, B]
    lost = [message for message in links if isinstance(message, Progress)]
    links.clear()
    assert lost
    noticed(lab, "worker 1, scope 0: .* accounted for", lambda: lab.invariants.check(B))
    noticed(lab, "worker 1 can only ever apply 0", lab.order)


def test_a_batch_that_is_repeated(lab: Lab):
    lab.advance(1)
    lab.settle()
    lab.advance(2, A)
    lab.step()
    links = lab.cluster.network.links[A, B]
    [batch] = [message for message in links if isinstance(message, Progress)]
    links.append(batch)
    noticed(lab, "worker 1, scope 0: .* accounted for", lambda: lab.invariants.check(B))
    noticed(lab, "worker 1 has yet to apply batch 1", lab.order)


def test_batches_that_are_swapped(lab: Lab):
    for epoch in (1, 2):
        lab.advance(epoch)
        for worker in (A, B):
            lab.step(worker)
        while lab.cluster.network.links[B, A]:
            lab.cluster.network.deliver((B, A))
        for _ in range(3):
            lab.step()
    links = lab.cluster.network.links[A, B]
    assert sum(isinstance(message, Progress) for message in links) > 1
    links.reverse()
    noticed(lab, "where 0 is due", lambda: lab.invariants.check(B))


def test_a_batch_that_is_not_the_same_for_all(lab: Lab):
    lab.advance(1, A)
    lab.step()
    links = lab.cluster.network.links[A, B]
    [batch] = [message for message in links if isinstance(message, Progress)]
    links.clear()
    links.append(Progress(batch.channel, batch.sequence, batch.changes[::-1]))
    noticed(lab, "to one worker and", lambda: lab.invariants.check(B))


def test_a_batch_that_leaves_something_out(lab: Lab):
    lab.taps[0].advance(1)
    lab.cluster.workers[A].step()
    lab.root().ledger().done.update((lab.location(Source(1, 0)), 9), 1)
    lab.root().ledger().tracker.update(lab.location(Source(1, 0)), 9, -1)
    noticed(lab, "sent a batch of scope 0 and kept")


def test_two_batches_in_one_step(lab: Lab):
    lab.cluster.workers[A].step()
    lab.root().ledger().sequences.next_out += 2
    noticed(lab, "sent 2 batches of scope 0 in one step")


def test_a_frontier_that_is_late_for_ever(lab: Lab):
    tracker = lab.root().ledger().tracker
    tracker.update(lab.location(Source(1, 0)), 0, 1)
    with pytest.raises(AssertionError):
        lab.advance(2)
    for _ in range(3):
        for worker in lab.cluster.workers.values():
            worker.step()
        deliver_all(lab.cluster.network)
    noticed(lab, "accounted for", lab.invariants.check_settled)


def test_frontiers_that_differ_from_the_truth_once_all_is_quiet(lab: Lab):
    lab.handles[1].frontier.update(0, -1)
    lab.handles[1].frontier.update(0, 1)
    lab.invariants.check_settled()
    lab.advance(1)
    lab.settle()
    lab.handles[1].frontier.update(0, 1)
    noticed(
        lab,
        r"nothing is under way, and on worker 1 the frontier at target 0 of 'slow' \(0.2\) is \(0,\)",
        (lab.invariants.check_settled),
    )


def test_a_worker_that_sleeps_over_what_it_did(lab: Lab):
    lab.taps[0].advance(0)
    clone = lab.taps[0].capability.clone()
    noticed(lab, "worker 0 sleeps over what 'tap' did", lab.invariants.check_settled)
    clone.drop()
    lab.invariants.check_settled()
    lab.taps[0].send(0)
    noticed(lab, "worker 0 sleeps over what entered scope 0.3", lab.invariants.check_settled)
    lab.nested().receive(B, 0, ())
    noticed(lab, "worker 0 sleeps over what it heard in scope 0.3", lab.invariants.check_settled)


def test_a_dataflow_that_ends_while_something_is_left(lab: Lab):
    lab.cluster.workers[B].drop_dataflow(0)
    noticed(
        lab, r"workers \[1\] have ended dataflow 0, but something is left in scopes", lambda: lab.invariants.check(B)
    )


def test_a_dataflow_that_is_abandoned_is_nobodys_business(lab: Lab):
    lab.invariants.abandon(0)
    lab.cluster.workers[B].drop_dataflow(0)
    for worker in (A, B):
        lab.invariants.check(worker)
    lab.invariants.check_ended()


def test_what_is_left_in_the_end(lab: Lab):
    noticed(lab, r"dataflow 0 still runs on \[0, 1\]", lab.invariants.check_ended)
    for worker in (A, B):
        lab.cluster.workers[worker].shut_down()
    lab.invariants.check_ended()
    held = lab.taps[0].output
    kept = Capability(0, held)
    noticed(lab, "outlives its dataflow", lab.invariants.check_ended)
    kept.drop()
    channel = next(iter(lab.invariants._positions.data_channels))
    lab.cluster.network.links[A, B].append(Data(channel, 0, ["x"]))
    noticed(lab, "never arrived", lab.invariants.check_ended)


def test_workers_that_have_not_built_yet_count_with_what_they_will_start_with():
    cluster = SimulatedCluster(workers=3, seed=0)
    with Invariants(cluster) as invariants:
        with cluster.workers[A].dataflow() as scope:
            tap = Tap(scope)
            Catch(scope, tap.outlet)
        for _ in range(3):
            cluster.workers[A].step()
            invariants.check(A)
        invariants.check_settled()
        noticed_missing = pytest.raises(AssertionError, match=r"dataflow 0 still runs on \[0\]")
        with noticed_missing:
            invariants.check_ended()
    cluster.workers[A].shut_down()


def test_what_pointstamps_imply_is_worked_out_by_walking():
    lab = Lab()
    with lab.invariants:
        compiled = lab.root().compiled
        least = implied(compiled, [(lab.location(Source(1, 0)), 4), (lab.location(Source(3, 0)), 2)])
        reached = {compiled.locations[number]: tuple(times) for number, times in enumerate(least) if times}
        assert reached == {
            Source(1, 0): (4,),
            Target(2, 0): (4,),
            Source(2, 0): (4,),
            Target(3, 0): (4,),
            Source(3, 0): (2,),
            Target(4, 0): (2,),
        }
    for worker in lab.cluster.workers.values():
        worker.shut_down()


def test_a_pipeline_is_watched_as_well():
    cluster = SimulatedCluster(workers=2, seed=9)

    def program(worker: Worker) -> Iterator[None]:
        with worker.dataflow() as scope:
            tap = Tap(scope)
            Catch(scope, tap.outlet, Pipeline())
        yield
        tap.send("x")
        yield
        tap.close()

    with Invariants(cluster) as invariants:
        cluster.run(program)
        invariants.check_ended()
    assert invariants.checks > 4
