"""What must hold after every move of a simulated cluster.

*Safety*: what exists somewhere, a record or a capability, and could result in a time at some location, is in no
worker's view behind that location's frontier, nor behind the frontier that an operator there was told.

*Accounting*: of each scope, what a worker's tracker holds and what is on its way there (told but not applied, sent but
not received, done but not told) adds up to what exists. A nested scope reports to the scope around it on behalf of all
workers, so what is on its way to a worker includes what the nested scope has yet to report there. A nested scope's
outputs hold no capabilities of their own but the least times that its inside could result in; these must be what its
tracker on the same worker implies. Accounts are checked for the worker that moved; batches are the same for all, so
the others' still add up, and are checked when everything has settled.

*Order*: each worker's batches of progress are numbered without a gap, are the same for every receiver, leave at most
once per step, carry all that was done up to then, and are each either applied, or waiting, or under way: once.

*Exactness*: when nothing is under way and nobody has anything to do, frontiers are not only safe but equal to what the
existing records and capabilities imply. What is late by then would stay late for ever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from framework.membership.members import WorkerId
from framework.membership.messages import Joined
from framework.progress.antichain import Antichain, MutableAntichain
from framework.progress.order import Time
from framework.progress.subgraph import Child
from framework.progress.summary import results_in
from framework.simulation.cluster import SimulatedCluster
from framework.simulation.truth import (
    Census,
    Counts,
    Frontiers,
    Positions,
    ScopeOnWorker,
    TrueFrontiers,
    add,
    add_all,
    moved,
)
from framework.wire.messages import Data, Progress


@dataclass(slots=True)
class _Dataflow:
    """One dataflow on all workers."""

    number: int
    on: dict[WorkerId, ScopeOnWorker] = field(default_factory=dict)
    """Where it is running."""
    built: dict[WorkerId, ScopeOnWorker] = field(default_factory=dict)
    """Where it has run, on workers that have not left."""
    ever_built: set[WorkerId] = field(default_factory=set)
    frontiers: Frontiers = field(default_factory=dict)
    """What was implied by what existed, when that was last looked at."""


@dataclass(slots=True)
class _Moment:
    """What exists and what is under way, by scope."""

    existing: dict[str, Counts] = field(default_factory=lambda: defaultdict(dict))
    """Records at inputs, capabilities at outputs."""
    sent: dict[tuple[str, WorkerId], list[tuple[WorkerId, Progress]]] = field(default_factory=lambda: defaultdict(list))
    """Batches of progress, by scope and receiver, with their senders."""


class Invariants:
    """Watches a cluster; `with Invariants(cluster): cluster.run(…)`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._census = Census()
        self._positions = Positions()
        self._implications = TrueFrontiers()
        self._dataflows: dict[int, _Dataflow] = {}
        self._abandoned: set[int] = set()
        self._waiting: set[WorkerId] = set()
        self._next_out: dict[tuple[str, WorkerId], int] = {}
        self._batches: dict[tuple[str, WorkerId, int], tuple[object, ...]] = {}
        self.checks = 0
        self.checks_settled = 0

    def __enter__(self) -> Invariants:
        self._cluster.after_move.append(self.check)
        self._cluster.when_settled.append(self.check_settled)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._cluster.after_move.remove(self.check)
        self._cluster.when_settled.remove(self.check_settled)
        self._census.close()

    def abandon(self, number: int) -> None:
        """From now on a dataflow is dropped, whatever is under way in it: nothing is claimed about it."""
        self._abandoned.add(number)

    def check(self, worker: WorkerId) -> None:
        """Raise unless everything holds, after a move of `worker`."""
        self.checks += 1
        moment = self._take_stock([worker])
        for dataflow in self._claimed():
            self._check_safety(dataflow, moment, worker)
            if worker in dataflow.on:
                self._check_accounts(dataflow, moment, dataflow.on[worker])
            self._check_order(dataflow, moment, worker)

    def check_settled(self) -> None:
        """Raise unless frontiers are exact and all accounts are right; call when nothing is under way."""
        self.checks_settled += 1
        moment = self._take_stock(self._cluster.workers)
        for dataflow in self._claimed():
            frontiers = self._implications.of(dataflow.built, moment.existing)
            for root in dataflow.on.values():
                self._check_accounts(dataflow, moment, root)
                for scope in root.all_scopes:
                    self._check_exactness(scope, frontiers[scope.path])
                    _check_reported(scope)

    def check_ended(self) -> None:
        """Raise unless nothing is left of any dataflow that was not abandoned."""
        self._take_stock(self._cluster.workers)
        for dataflow in self._claimed():
            assert not dataflow.on, f"dataflow {dataflow.number} still runs on {sorted(dataflow.on)}"
            missing = self._cluster.workers.keys() - dataflow.ever_built - self._cluster.departed
            assert not missing, f"dataflow {dataflow.number} was never built on workers {sorted(missing)}"
        for capability in self._census.held():
            place = self._positions.outputs.get(id(capability.holder))
            assert place is None or self._is_abandoned(place[0]), f"{capability!r} outlives its dataflow"
        for _, _, message in self._cluster.network.under_way():
            if isinstance(message, Data):
                path, _ = self._positions.data_channels[message.channel]
                assert self._is_abandoned(path), f"{message} never arrived"

    # Looking around

    def _claimed(self) -> list[_Dataflow]:
        return [dataflow for number, dataflow in self._dataflows.items() if number not in self._abandoned]

    def _is_abandoned(self, path: str) -> bool:
        return int(path.split(".")[0]) in self._abandoned

    def _look(self, workers: Iterable[WorkerId]) -> None:
        """Find out which dataflows have come and gone, and what has changed in them."""
        provisional = self._provisional()
        enlisted = self._waiting - provisional
        self._waiting = provisional
        for id_ in {*workers, *enlisted} - provisional:
            worker = self._cluster.workers[id_]
            running = worker.dataflows()
            for number, root in running.items() if not worker.membership.parted else ():
                dataflow = self._dataflows.setdefault(number, _Dataflow(number))
                if id_ not in dataflow.ever_built:
                    dataflow.ever_built.add(id_)
                    dataflow.built[id_] = dataflow.on[id_] = scope = ScopeOnWorker(id_, root)
                    self._positions.learn(worker, scope)
                for scope in dataflow.on[id_].all_scopes:
                    scope.look(peers=len(worker.members))
            for number, dataflow in self._dataflows.items():
                if number not in running or worker.membership.parted:
                    gone = dataflow.on.pop(id_, None)
                    for scope in gone.all_scopes if gone else ():
                        self._next_out[scope.path, id_] = scope.ledger.sequences.next_out
                if id_ in self._cluster.departed or worker.membership.parted:
                    dataflow.built.pop(id_, None)

    def _provisional(self) -> set[WorkerId]:
        """Joiners that have not joined: they cannot do anything yet, and what they hold is their server's to drop."""
        return {
            id_
            for id_, worker in self._cluster.workers.items()
            if worker.membership.joining
            and not any(
                isinstance(message, Joined) and receiver == message.joiner == id_
                for _, receiver, message in self._cluster.network.under_way()
            )
        }

    def _take_stock(self, workers: Iterable[WorkerId]) -> _Moment:
        """What exists now; of the scopes, only those of `workers` have changed since the last time."""
        self._look(workers)
        moment, positions, everyone = _Moment(), self._positions, self._cluster.workers
        for dataflow in self._dataflows.values():
            for root in dataflow.on.values():
                for scope in root.all_scopes:
                    add_all(moment.existing[scope.path], scope.records)
            absent = sum(
                not worker.membership.joiner for worker in everyone.values() if worker.id not in dataflow.ever_built
            )
            if absent and dataflow.number not in self._abandoned:
                # They will start with these capabilities; all others know that.
                for scope in next(iter(dataflow.built.values())).all_scopes:
                    add_all(moment.existing[scope.path], scope.initial, absent)
        for capability in self._census.held():
            place = positions.outputs.get(id(capability.holder))
            if place is not None:
                add(moment.existing[place[0]], (place[1], capability.time), 1)
        self._count_lent(moment)
        for worker in everyone.values():
            for channel, time, container in worker.held():
                path, location = positions.data_channels[channel]
                add(moment.existing[path], (location, time), len(container))
        early = ((sender, id_, message) for id_, worker in everyone.items() for sender, message in worker.early())
        for sender, receiver, message in (*early, *self._cluster.network.under_way()):
            if isinstance(message, Data) and message.channel in positions.data_channels:
                path, location = positions.data_channels[message.channel]
                add(moment.existing[path], (location, message.time), len(message.container))
            elif isinstance(message, Progress) and message.channel in positions.progress_channels:
                moment.sent[positions.progress_channels[message.channel], receiver].append((sender, message))
        return moment

    def _count_lent(self, moment: _Moment) -> None:
        """Capabilities of joiners: those that their server still answers for, and those not yet built upon."""
        for id_, worker in self._cluster.workers.items():
            if id_ in self._cluster.departed:
                continue
            lent = list(worker.membership.member.lent)
            if worker.membership.joiner is not None and id_ not in self._provisional():
                lent += [(*place, time) for place, time in worker.membership.joiner.inheritance.lent.items()]
            for path, port, time in lent:
                scope, location = self._positions.sources[path, port]
                add(moment.existing[scope], (location, time), 1)

    # Safety

    def _check_safety(self, dataflow: _Dataflow, moment: _Moment, worker: WorkerId) -> None:
        frontiers = self._implications.of(dataflow.built, moment.existing)
        for root in dataflow.on.values():
            for scope in root.all_scopes:
                truth = frontiers[scope.path]
                if root.worker == worker or truth is not dataflow.frontiers.get(scope.path):
                    _check_scope_safety(scope, truth)
        dataflow.frontiers = frontiers
        if len(dataflow.on) < len(dataflow.built):
            left = [path for path, locations in frontiers.items() if any(map(len, locations))]
            assert not left, (
                f"workers {sorted(dataflow.built.keys() - dataflow.on.keys())} have ended dataflow {dataflow.number}, "
                f"but something is left in scopes {left}"
            )

    # Accounting

    def _check_accounts(self, dataflow: _Dataflow, moment: _Moment, root: ScopeOnWorker) -> None:
        not_told: dict[str, Counts] = defaultdict(dict)
        for any_root in dataflow.on.values():
            for scope in any_root.all_scopes:
                add_all(not_told[scope.path], scope.not_told)
        self._check_scope_accounts(root, not_told, moment)

    def _check_scope_accounts(self, scope: ScopeOnWorker, not_told: dict[str, Counts], moment: _Moment) -> Counts:
        """Check a scope and those in it on one worker; return what is on its way to this worker's tracker."""
        ledger = scope.ledger
        coming = dict(not_told[scope.path])
        add_all(coming, dict(ledger.heard.items()))
        batches = [changes for _, _, changes in ledger.inbox]
        batches += [batch.changes for _, batch in moment.sent[scope.path, scope.worker]]
        for changes in batches:
            for location, time, delta in changes:
                add(coming, (location, time), delta)
        known = ledger.tracker.pointstamps()
        for child, nested in scope.scopes:
            inside = self._check_scope_accounts(nested, not_told, moment)
            add_all(coming, _reports(child, nested, inside, peers=1))
            _check_projection(child, nested, scope, known)
        total = dict(known)
        add_all(total, coming)
        total = {key: count for key, count in total.items() if key[0] not in scope.not_counted}
        truth = moment.existing[scope.path]
        if total != truth:
            wrong = {key for key in total.keys() | truth.keys() if total.get(key, 0) != truth.get(key, 0)}
            lines = [
                f"{_name(scope, location)} at {time!r}: {total.get((location, time), 0)} accounted for, "
                f"{truth.get((location, time), 0)} exist"
                for location, time in wrong
            ]
            raise AssertionError(f"worker {scope.worker}, scope {scope.path}: " + "; ".join(lines))
        return coming

    # Order

    def _check_order(self, dataflow: _Dataflow, moment: _Moment, worker: WorkerId) -> None:
        scopes = dataflow.on[worker].all_scopes if worker in dataflow.on else ()
        sent = {scope.path for scope in scopes if self._check_sending(scope)}
        for root in dataflow.on.values():
            for scope in root.all_scopes:
                if root.worker == worker or scope.path in sent:
                    self._check_receiving(scope, moment)

    def _check_sending(self, scope: ScopeOnWorker) -> bool:
        key, next_out = (scope.path, scope.worker), scope.ledger.sequences.next_out
        sent = next_out - self._next_out.get(key, 0)
        self._next_out[key] = next_out
        assert sent in (0, 1), f"worker {scope.worker} sent {sent} batches of scope {scope.path} in one step"
        assert not sent or not len(scope.ledger.done), (
            f"worker {scope.worker} sent a batch of scope {scope.path} and kept {scope.ledger.done} back"
        )
        return bool(sent)

    def _check_receiving(self, scope: ScopeOnWorker, moment: _Moment) -> None:
        due = dict(scope.ledger.sequences.next_in)
        waiting = [*scope.ledger.inbox]
        waiting += [(sender, batch.sequence, batch.changes) for sender, batch in moment.sent[scope.path, scope.worker]]
        for sender, sequence, changes in waiting:
            assert sequence == due.get(sender, 0), (
                f"worker {scope.worker} has yet to apply batch {sequence} of worker {sender} in scope {scope.path}, "
                f"where {due.get(sender, 0)} is due"
            )
            due[sender] = sequence + 1
            known = self._batches.setdefault((scope.path, sender, sequence), changes)
            assert changes == known, (
                f"batch {sequence} of worker {sender} in scope {scope.path} is {known} to one worker and {changes} to "
                f"worker {scope.worker}"
            )
        dataflow = scope.path.split(".")[0]
        left = any(counts for path, counts in moment.existing.items() if path.split(".")[0] == dataflow)
        if self._cluster.workers[scope.worker].membership.joiner and not left:
            return  # it may have joined when the dataflow was complete
        for sender in self._cluster.workers:
            next_out = self._next_out.get((scope.path, sender), 0)
            assert due.get(sender, 0) == next_out, (
                f"worker {sender} sent {next_out} batches of scope {scope.path}, and worker {scope.worker} can only "
                f"ever apply {due.get(sender, 0)}"
            )

    # Exactness

    def _check_exactness(self, scope: ScopeOnWorker, truth: list[Antichain[Time]]) -> None:
        views = [(location, scope.ledger.tracker.frontier(location)) for location in range(len(truth))]
        for child, operator in scope.operators:
            if operator.notify:
                views += zip(child.targets, [handle.frontier for handle in operator.inputs], strict=True)
        for location, view in views:
            assert set(view.frontier()) == set(truth[location]), (
                f"nothing is under way, and on worker {scope.worker} the frontier at {_name(scope, location)} is "
                f"{view.frontier()}; what exists implies {tuple(truth[location])}"
            )


def _check_reported(scope: ScopeOnWorker) -> None:
    """Nobody has anything to do, so everybody has said what it did."""
    ledger = scope.ledger
    heard = [*ledger.heard.items(), *ledger.inbox]
    assert not heard, f"worker {scope.worker} sleeps over what it heard in scope {scope.path}: {heard}"
    for child in scope.subgraph.children():
        shared = child.operator.shared
        left = [*shared.consumed, *shared.internal, *shared.produced]
        assert not any(map(len, left)), f"worker {scope.worker} sleeps over what {child.operator.name!r} did: {shared}"
    assert not any(map(len, scope.subgraph.entered)), (
        f"worker {scope.worker} sleeps over what entered scope {scope.path}: {scope.subgraph.entered}"
    )


def _check_scope_safety(scope: ScopeOnWorker, truth: list[Antichain[Time]]) -> None:
    tracker = scope.ledger.tracker
    for location, times in enumerate(truth):
        if times:
            _check_behind(tracker.frontier(location), times, scope, location, "the frontier")
    for child, operator in scope.operators:
        for location, handle in zip(child.targets, operator.inputs, strict=True):
            if truth[location]:
                _check_behind(handle.frontier, truth[location], scope, location, "what the operator was told")


def _check_behind(
    frontier: MutableAntichain, times: Antichain[Time], scope: ScopeOnWorker, location: int, what: str
) -> None:
    for time in times:
        assert frontier.less_equal(time), (
            f"on worker {scope.worker}, {what} at {_name(scope, location)} is {frontier.frontier()}, but {time!r} "
            f"could still turn up there"
        )


def _check_projection(child: Child, nested: ScopeOnWorker, scope: ScopeOnWorker, known: Counts) -> None:
    """At a nested scope's outputs stands what its tracker implies, or the difference is about to be reported."""
    stands: Counts = {key: count for key, count in known.items() if key[0] in child.sources}
    for key, delta in scope.ledger.heard.items():
        if key[0] in child.sources:
            add(stands, key, delta)
    for location, internal in zip(child.sources, nested.subgraph.shared.internal, strict=True):
        for time, delta in internal.items():
            add(stands, (location, time), delta)
    leave, compiled = nested.subgraph.nesting.leave, nested.compiled
    inner: dict[int, Antichain[Time]] = defaultdict(Antichain)
    for (location, time), count in nested.ledger.tracker.pointstamps().items():
        if count > 0 and location not in nested.entrances:
            inner[location].insert(time)
    implies: Counts = {}
    for location, times in inner.items():
        for port, summaries in compiled.to_outputs[location]:
            for result in (results_in(summary, time) for summary in summaries for time in times):
                if result is not None:
                    add(implies, (child.sources[port], leave(result)), 1)
    assert stands == implies, (
        f"worker {scope.worker}: at the outputs of scope {nested.path} stands {stands}, its inside implies {implies}"
    )


def _reports(child: Child, nested: ScopeOnWorker, inside: Counts, peers: int) -> Counts:
    """What a nested scope has yet to report: records that entered it are gone from before it, others came out."""
    reports: Counts = {}
    moved(child, nested.subgraph.shared, reports, peers)
    leave = nested.subgraph.nesting.leave
    for (location, time), delta in inside.items():
        if location in nested.entrances:
            add(reports, (child.targets[nested.entrances[location]], leave(time)), delta)
        elif location in nested.exits:
            for target, to_all in child.fans_out[nested.exits[location]]:
                add(reports, (target, leave(time)), delta * peers if to_all else delta)
    return reports


def _name(scope: ScopeOnWorker, location: int) -> str:
    place = scope.compiled.locations[location]
    kind = type(place).__name__.lower()
    if place.node == 0:
        return f"{kind} {place.port} of the border of scope {scope.path}"
    path = f"{scope.path}.{place.node}"
    name = next(child.operator.name for child in scope.subgraph.children() if child.path == path)
    return f"{kind} {place.port} of {name!r} ({path})"
