"""A scope at run time, step by step, on two workers whose frames the test moves by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from framework.dataflow.capability import Capability
from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.operator import OperatorLogic
from framework.dataflow.pact import Broadcast, Exchange, Pact, Pipeline
from framework.dataflow.scope import Outlet, Scope
from framework.events import Event, OperatorScheduled, ProgressReceived, ProgressSent
from framework.membership.members import WorkerId
from framework.progress.location import Source, Target
from framework.progress.order import Product, Time
from framework.progress.subgraph import ProgressState, Subgraph
from framework.progress.summary import Summary
from framework.simulation.network import Network
from framework.wire.messages import Data, Message, Progress
from framework.worker.worker import Worker
from tests.unit.framework.dataflow.taps import Catch, Tap, deliver_all, settle, worker_alone, workers


def sent(network: Network, kind: type[Message]) -> list[tuple[int, int, Message]]:
    """What of a kind is on the links."""
    return [
        (a, b, message) for (a, b), frames in network.links.items() for message in frames if isinstance(message, kind)
    ]


def passing(scope: Scope, outlet: Outlet, pact: Pact | None = None, summary: Summary | None = None) -> Outlet:
    """An operator that passes everything on, to a later time if it advances times."""
    builder = scope.operator("passing")
    input = builder.input(outlet, pact or Pipeline())
    output, passed = builder.output()
    if summary is not None:
        builder.connect(input, output, [summary])

    def run() -> None:
        for capability, rows in input:
            output.session(capability).give_container(rows)

    builder.build(lambda _: run)
    return passed


class TestTwoWorkers:
    """tap -> catch, with an exchange between them, on workers 0 and 1."""

    @pytest.fixture(autouse=True)
    def cluster(self) -> None:
        self.network = Network()
        self.workers = workers(2, self.network)
        self.taps: list[Tap] = []
        self.catches: list[Catch] = []
        for worker in self.workers:
            with worker.dataflow() as scope:
                tap = Tap(scope)
                self.taps.append(tap)
                self.catches.append(Catch(scope, tap.outlet, Exchange(int)))
        settle(self.workers, self.network, rounds=3)

    def state(self, worker: int) -> ProgressState:
        return self.workers[worker].progress_states()[0]

    def test_every_worker_knows_the_initial_capabilities_of_all(self):
        assert [self.state(worker).pointstamps for worker in (0, 1)] == [{(0, 0): 2}] * 2

    def test_a_frontier_waits_for_all_workers(self):
        self.taps[0].close()
        settle(self.workers, self.network, rounds=3)
        assert [catch.frontier for catch in self.catches] == [(0,), (0,)]
        self.taps[1].advance(4)
        settle(self.workers, self.network, rounds=3)
        assert [catch.frontier for catch in self.catches] == [(4,), (4,)]
        self.taps[1].close()
        settle(self.workers, self.network, rounds=3)
        assert [catch.frontier for catch in self.catches] == [(), ()]
        assert [worker.installed_dataflows() for worker in self.workers] == [[], []]

    def test_what_a_step_did_leaves_in_one_batch(self):
        self.taps[0].send(1, 3, 5, 2)
        self.taps[0].advance(1)
        self.taps[0].send(7)
        self.workers[0].step()
        [(sender, receiver, batch)] = sent(self.network, Progress)
        assert (sender, receiver) == (0, 1)
        assert isinstance(batch, Progress)
        source, target = 0, 1
        # One of the four was for worker 0, which has taken it.
        assert sorted(batch.changes) == [(source, 0, -1), (source, 1, 1), (target, 0, 3), (target, 1, 1)]

    def test_what_cannot_move_a_frontier_is_not_told(self):
        """Records come and go at a time that nobody waits for, since earlier ones may still come."""
        for number in range(10):
            with self.taps[0].capability.delayed(5) as later:
                self.taps[0].output.session(later).give_container([2 * number, 2 * number + 1])
            self.workers[0].step()
            deliver_all(self.network)
            self.workers[1].step()
            assert sent(self.network, Progress) == []
        assert len(self.catches[0].rows) + len(self.catches[1].rows) == 20
        self.taps[0].advance(1)
        self.workers[0].step()
        assert len(sent(self.network, Progress)) == 1
        settle(self.workers, self.network, rounds=3)
        assert [self.state(worker).next_out for worker in (0, 1)] == [1, 0]

    def test_a_withheld_change_is_told_once_it_matters(self):
        self.taps[0].send(1)
        self.workers[0].step()
        deliver_all(self.network)
        self.workers[1].step()
        self.taps[0].close()
        self.taps[1].close()
        settle(self.workers, self.network, rounds=4)
        assert [worker.installed_dataflows() for worker in self.workers] == [[], []]

    def test_a_batch_counts_from_the_next_scheduling_on_and_whole(self):
        self.taps[0].send(1)
        self.taps[0].advance(3)
        self.taps[1].advance(3)
        self.workers[0].step()
        for link in self.network.busy():
            while self.network.links[link] and not isinstance(self.network.links[link][0], Progress):
                self.network.links[link].rotate(-1)  # progress may overtake nothing on a link; here it goes first
            self.network.deliver(link)
        self.workers[1].step()
        self.workers[1].step()
        # The record is still under way to worker 1, which has heard of it and not seen it.
        assert sent(self.network, Data) != []
        assert self.catches[1].frontier == (0,)
        settle(self.workers, self.network, rounds=4)
        assert self.catches[1].rows == [(0, 1)]
        assert self.catches[1].frontier == (3,)

    def test_events_tell_of_batches_sent_and_received(self):
        seen: list[tuple[int, Event]] = []
        for worker in self.workers:
            worker.events.subscribe(lambda id_, _, event: seen.append((id_, event)))
        self.taps[0].advance(1)
        self.workers[0].step()
        settle(self.workers, self.network, rounds=3)
        assert [item for item in seen if isinstance(item[1], ProgressSent | ProgressReceived)] == [
            (0, ProgressSent("0", 0, 2)),
            (0, ProgressReceived("0", WorkerId(0), 0, 2)),
            (1, ProgressReceived("0", WorkerId(0), 0, 2)),
        ]

    def test_the_state_says_what_was_heard_of_whom(self):
        self.taps[0].advance(2)
        settle(self.workers, self.network, rounds=3)
        self.taps[1].advance(5)
        settle(self.workers, self.network, rounds=3)
        assert self.state(0) == ProgressState({(0, 2): 1, (0, 5): 1}, {}, {WorkerId(0): 1, WorkerId(1): 1}, 1)
        assert self.state(1) == self.state(0)


def test_what_another_pointstamp_stands_for_anyway_is_not_told():
    """An operator gives up its capability at a time that could still come in at its input: no frontier moves."""
    network = Network()
    peers = workers(2, network)
    taps, catches = [], []
    for worker in peers:
        with worker.dataflow() as scope:
            taps.append(tap := Tap(scope))
            builder = scope.operator("modest")
            builder.input(tap.outlet, Pipeline())
            _, outlet = builder.output()

            def decline(capabilities: list[Capability]) -> OperatorLogic:
                capabilities[0].drop()
                return lambda: None

            builder.build(decline, capabilities=True)
            catches.append(Catch(scope, outlet))
    settle(peers, network, rounds=4)
    assert [worker.progress_states()[0].next_out for worker in peers] == [0, 0]
    for tap in taps:
        tap.advance(1)
    settle(peers, network, rounds=4)
    assert [catch.frontier for catch in catches] == [(1,), (1,)]
    assert [worker.progress_states()[0].next_out for worker in peers] == [1, 1]


def test_copies_for_all_workers_are_counted_for_all_workers():
    network = Network()
    peers = workers(3, network)
    taps, catches = [], []
    for worker in peers:
        with worker.dataflow() as scope:
            taps.append(tap := Tap(scope))
            catches.append(Catch(scope, tap.outlet, Broadcast()))
    settle(peers, network, rounds=2)
    taps[0].send("x", "y")
    taps[0].advance(1)
    peers[0].step()
    batches = [batch for _, _, batch in sent(network, Progress)]
    # Six copies, of which worker 0 has taken its own two.
    expected = [(0, 0, -1), (0, 1, 1), (1, 0, 4)]
    assert [sorted(batch.changes) for batch in batches if isinstance(batch, Progress)] == [expected, expected]


def test_a_source_that_keeps_itself_active_does_not_starve_the_others():
    worker = worker_alone()
    with worker.dataflow() as scope:
        builder = scope.operator("restless")
        output, outlet = builder.output()
        sent_so_far = iter(range(5))

        def start(capabilities: list[Any]) -> Any:
            def run() -> None:
                number = next(sent_so_far, None)
                if number is None:
                    capabilities[0].drop()
                else:
                    output.session(capabilities[0]).give(number)
                    builder.activator.activate()

            return run

        builder.build(start, capabilities=True)
        catch = Catch(scope, outlet)
    received = []
    for _ in range(5):
        worker.step()
        received.append(len(catch.rows))
    assert received == [1, 2, 3, 4, 5]


def test_children_run_in_order_and_once_per_round():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        stream = tap.outlet
        for _ in range(4):
            stream = passing(scope, stream)
        catch = Catch(scope, stream)
    ran: list[str] = []
    worker.events.subscribe(
        lambda _, __, event: ran.append(event.path) if isinstance(event, OperatorScheduled) else None
    )
    worker.step()
    assert ran == ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6"]
    worker.step()
    assert ran[6:] == []
    tap.send("through all of them in one round")
    worker.step()
    assert ran[6:] == ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6"]
    assert len(catch.rows) == 1


def test_who_is_activated_behind_the_current_one_runs_in_the_next_round():
    """An operator late in the order wakes one that is early in it, which must not be forgotten."""
    worker = worker_alone()
    with worker.dataflow() as scope:
        ran: list[str] = []
        early = scope.operator("early")
        early.build(lambda _: lambda: ran.append("early"))
        late = scope.operator("late")

        def run() -> bool:
            ran.append("late")
            if len(ran) < 5:
                early.activator.activate()
            return True

        late.build(lambda _: run)
    worker.step()
    assert ran == ["early", "late"]
    worker.step()
    assert ran == ["early", "late", "early"]
    worker.step()
    assert ran == ["early", "late", "early"]
    late.activator.activate()
    worker.step()
    worker.step()
    assert ran == ["early", "late", "early", "late", "early"]


def test_work_that_no_capability_stands_for_keeps_a_dataflow_alive():
    worker = worker_alone()
    with worker.dataflow() as scope:
        builder = scope.operator("writes a file")
        left = iter([True, True, False])
        builder.build(lambda _: lambda: next(left))
    assert worker.step()
    builder.activator.activate()
    assert worker.step()
    builder.activator.activate()
    assert not worker.step()


def test_the_same_in_a_nested_scope():
    worker = worker_alone()
    with worker.dataflow() as scope, scope.iterative() as inner:
        builder = inner.operator("writes a file")
        left = iter([True, False])
        builder.build(lambda _: lambda: next(left))
    assert worker.step()
    builder.activator.activate()
    assert not worker.step()


def test_frontiers_reach_who_asks_for_them_in_the_round_in_which_they_change():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        asks, ignores = Catch(scope, tap.outlet), Catch(scope, tap.outlet, notify=False)
    for epoch in range(1, 4):
        tap.advance(epoch)
        settle([worker], rounds=2)
    assert asks.told == [(0,), (1,), (2,), (3,)]
    assert ignores.told == [(0,)]
    tap.send("now")
    settle([worker], rounds=2)
    assert ignores.told == [(0,), (3,)]


class TestNested:
    """tap -> iterative scope [enter -> passing -> leave] -> catch, on two workers."""

    @pytest.fixture(autouse=True)
    def cluster(self) -> Iterator[None]:
        self.network = Network()
        self.workers = workers(2, self.network)
        self.taps, self.inner, self.outer = [], [], []
        for worker in self.workers:
            with worker.dataflow() as scope:
                tap = Tap(scope)
                self.taps.append(tap)
                with scope.iterative() as inside:
                    entered = inside.enter(tap.outlet)
                    passed = passing(inside, entered, Exchange(int))
                    self.inner.append(Catch(inside, passed))
                    left = inside.leave(passed)
                self.outer.append(Catch(scope, left))
        settle(self.workers, self.network, rounds=3)
        yield
        for tap in self.taps:
            tap.close()
        settle(self.workers, self.network, rounds=8)
        assert [worker.installed_dataflows() for worker in self.workers] == [[], []]

    def scope(self, worker: int) -> Subgraph:
        root = self.workers[worker].dataflows()[0]
        [nested] = [child.operator for child in root.children() if isinstance(child.operator, Subgraph)]
        return nested

    def test_times_gain_and_lose_a_coordinate(self):
        self.taps[0].advance(3)
        self.taps[0].send(0, 1)
        settle(self.workers, self.network, rounds=6)
        assert [catch.rows for catch in self.inner] == [[(Product(3, 0), 0)], [(Product(3, 0), 1)]]
        assert [catch.rows for catch in self.outer] == [[(3, 0)], [(3, 1)]]

    def test_frontiers_pass_through(self):
        for tap in self.taps:
            tap.advance(2)
        settle(self.workers, self.network, rounds=6)
        assert [catch.frontier for catch in self.inner] == [(Product(2, 0),)] * 2
        assert [catch.frontier for catch in self.outer] == [(2,)] * 2

    def test_a_record_that_entered_is_told_at_once(self):
        """The surroundings must hear of it, whether or not it moves a frontier inside."""
        self.taps[0].send(0)
        self.workers[0].step()
        channels = [message.channel for _, _, message in sent(self.network, Progress) if isinstance(message, Progress)]
        [inside] = [
            channel
            for channel, end in self.workers[0].channels().items()
            if isinstance(end, Subgraph) and end.path != "0"
        ]
        assert inside in channels

    def test_a_record_inside_holds_the_frontier_outside_on_all_workers(self):
        self.taps[0].send(1)
        for tap in self.taps:
            tap.advance(5)
        for _ in range(6):
            self.workers[0].step()
            for link in self.network.busy():
                # All arrives but the record itself, which is under way to worker 1 inside the scope.
                frames = self.network.links[link]
                for _ in range(len(frames)):
                    if isinstance(frames[0], Data):
                        frames.rotate(-1)
                    else:
                        self.network.deliver(link)
            self.workers[1].step()
        assert sent(self.network, Data) != []
        assert [catch.frontier for catch in self.outer] == [(0,), (0,)]
        settle(self.workers, self.network, rounds=6)
        assert [catch.frontier for catch in self.outer] == [(5,), (5,)]
        assert self.outer[1].rows == [(0, 1)]

    def test_a_scope_reports_the_same_on_every_worker(self):
        self.taps[0].send(1, 2, 3)
        settle(self.workers, self.network, rounds=6)
        states = [worker.progress_states()[0].pointstamps for worker in self.workers]
        assert states[0] == states[1]
        # The scope's input and its consumer's hold nothing; the taps hold their capabilities.
        compiled = self.workers[0].dataflows()[0].compiled
        assert states[0] == {(compiled.ids[Source(1, 0)], 0): 2}

    def test_a_scope_starts_with_what_its_inside_may_emit(self):
        assert self.scope(0).initial == [[]]
        assert [[len(paths) for paths in to_outputs] for to_outputs in self.scope(0).connection] == [[1]]


def test_a_source_within_a_scope_holds_the_frontier_outside_from_the_start():
    network = Network()
    peers = workers(2, network)
    taps, catches = [], []
    for worker in peers:
        with worker.dataflow() as scope:
            with scope.iterative() as inner:
                taps.append(tap := Tap(inner))
                left = inner.leave(tap.outlet)
            catches.append(Catch(scope, left))
    root = peers[0].dataflows()[0]
    [nested] = [child.operator for child in root.children() if isinstance(child.operator, Subgraph)]
    assert nested.initial == [[(0, 1)]]
    settle(peers, network, rounds=3)
    assert [catch.frontier for catch in catches] == [(0,), (0,)]
    taps[0].advance(Product(2, 7))
    taps[1].advance(Product(1, 9))
    settle(peers, network, rounds=6)
    assert [catch.frontier for catch in catches] == [(1,), (1,)]
    for tap in taps:
        tap.close()
    settle(peers, network, rounds=6)
    assert [worker.installed_dataflows() for worker in peers] == [[], []]


def test_a_stream_that_enters_and_is_not_used():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        with scope.region() as inner:
            inner.enter(tap.outlet)
    tap.send("nobody wants it")
    tap.advance(1)
    settle([worker], rounds=4)
    assert worker.progress_states()[0].pointstamps == {(0, 1): 1}
    tap.close()
    settle([worker], rounds=4)
    assert worker.installed_dataflows() == []


def test_the_state_of_a_scope_leaves_out_what_only_its_surroundings_count():
    """What left an inner scope straight through a middle one is no pointstamp of the middle one."""
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        with scope.region("middle") as middle:
            entered = middle.enter(tap.outlet)
            with middle.region("inner") as inner:
                through = inner.leave(inner.enter(entered))
            left = middle.leave(through)
        catch = Catch(scope, left)
    [subgraph] = [child.operator for child in worker.dataflows()[0].children() if isinstance(child.operator, Subgraph)]
    settle([worker], rounds=3)
    tap.send("x")
    exits: dict[tuple[int, Time], int] = {}
    for _ in range(6):
        worker.step()
        state = subgraph.progress_state()
        exits |= state.exits
        assert not state.pointstamps
    assert exits == {(subgraph.compiled.ids[Target(0, 0)], 0): 1}
    assert catch.rows == [(0, "x")]
    tap.close()
    settle([worker], rounds=6)
    assert worker.installed_dataflows() == []


@pytest.mark.parametrize("count", [1, 3])
def test_progress_that_was_made_is_forgotten(count: int):
    """After 10^4 epochs a scope and one nested in it know as much as after 10^2: what is under way, not what was."""
    network = Network()
    peers = workers(count, network)
    taps, catches = [], []
    for worker in peers:
        with worker.dataflow() as scope:
            tap = Tap(scope)
            taps.append(tap)
            with scope.iterative() as inside:
                left = inside.leave(once_around(inside, inside.enter(tap.outlet)))
            catches.append(Catch(scope, left))
    sizes: dict[int, list[int]] = {}
    for epoch in range(1, 10_001):
        for tap in taps:
            tap.send(epoch)
            tap.advance(epoch)
        if epoch % 10 == 0:
            for worker in peers:
                worker.step()
            deliver_all(network)
        if epoch in (100, 10_000):
            settle(peers, network, rounds=15)
            sizes[epoch] = [size for worker in peers for size in known(worker)]
    assert sizes[10_000] == sizes[100]
    for tap in taps:
        tap.close()
    settle(peers, network, rounds=10)
    assert not any(worker.installed_dataflows() for worker in peers)
    received = sorted(row for catch in catches for row in catch.rows)
    assert received == sorted((epoch - 1, epoch) for epoch in range(1, 10_001) for _ in peers)


def once_around(scope: Scope, outlet: Outlet) -> Outlet:
    """Every record goes once around a loop before it is passed on."""
    builder = scope.operator("once around")
    fresh, back = builder.input(outlet, Pipeline()), builder.input(None, Pipeline())
    passed, onward = builder.output()
    looping, around = builder.output()
    builder.connect(fresh, passed, [])
    builder.connect(back, looping, [])

    def run(pairs: tuple[tuple[InputHandle, OutputHandle], ...] = ((fresh, looping), (back, passed))) -> None:
        for input, output in pairs:
            for capability, rows in input:
                output.session(capability).give_container(rows)

    builder.build(lambda _: run, notify=False)
    feedback = scope.operator("feedback")
    input = feedback.input(around, Exchange(int))
    output, returned = feedback.output()
    feedback.connect(input, output, [scope.domain.successor])

    def go_back() -> None:
        for capability, rows in input:
            with capability.delayed(Product(capability.time.outer, capability.time.inner + 1)) as later:  # type: ignore[union-attr]
                output.session(later).give_container(rows)

    feedback.build(lambda _: go_back, notify=False)
    builder.attach(back, returned, Pipeline())
    return onward


def known(worker: Worker) -> Iterator[int]:
    """How much each scope of a worker's dataflow keeps."""
    root = worker.dataflows()[0]
    nested = [child.operator for child in root.children() if isinstance(child.operator, Subgraph)]
    for scope in (root, *nested):
        state, ledger = scope.progress_state(), scope.ledger()
        yield len(state.pointstamps)
        yield len(state.next_in)
        yield len(ledger.done) + len(ledger.heard) + len(ledger.inbox)
        yield sum(len(ledger.tracker.frontier(location)) for location in range(len(scope.compiled.locations)))
        for child in scope.children():
            yield sum(map(len, child.operator.shared.frontiers))
