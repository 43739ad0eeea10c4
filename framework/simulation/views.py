"""What must hold in every state of an explored cluster: the claims of `invariants`, from what workers' states show.

A `WorkerView` is all that the claims need of one worker, taken once per state of that worker; what is under way is on
the links. Dataflows here have no nested scopes: those are left to random clusters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from framework.dataflow.capability import Capability
from framework.membership.members import WorkerId
from framework.membership.messages import Joined
from framework.progress.antichain import Antichain
from framework.progress.graph import Compiled
from framework.progress.order import Time
from framework.simulation.truth import Counts, Pointstamp, Positions, ScopeOnWorker, add, add_all, implied
from framework.wire.messages import Data, Message, Progress
from framework.worker.worker import Worker

ScriptLog: TypeAlias = Counter[Hashable]
"""What a program did and saw; part of its worker's state."""

PortFrontier: TypeAlias = tuple[str, int, tuple[Time, ...], bool]
"""What it is in words, the location, the times, and whether they are up to date once nothing is under way."""


class Broken(AssertionError):
    """A claim does not hold."""


class Unsafe(Broken):
    """A frontier has passed what could still turn up."""


@dataclass(frozen=True, slots=True)
class ScopeView:
    """What one worker knows of a dataflow."""

    received: Counts
    """What its tracker holds, and what it has received and not yet applied."""
    not_told: Counts
    frontiers: tuple[PortFrontier, ...]
    """What the tracker says, and what operators were told."""
    names: tuple[str, ...]
    """Of locations."""
    compiled: Compiled


@dataclass(frozen=True, slots=True)
class WorkerView:
    """What one state of a worker shows."""

    joining: bool
    gone: bool
    """Whether it takes part no more: its peers do not tell it anything."""
    running: bool
    scopes: dict[str, ScopeView]
    existing: dict[str, Counts]
    """Records and capabilities."""
    lent: dict[str, Counts]
    """Capabilities of a joiner that this worker answers for."""
    positions: Positions
    log: frozenset[tuple[Hashable, int]]


NOBODY = WorkerView(
    joining=False, gone=True, running=False, scopes={}, existing={}, lent={}, positions=Positions(), log=frozenset()
)
"""What is to be seen of a worker that is dead."""


def look(worker: Worker, capabilities: Iterable[Capability], log: ScriptLog) -> WorkerView:
    """Take in a worker, between steps."""
    membership = worker.membership
    existing: dict[str, Counts] = {}
    scopes: dict[str, ScopeView] = {}
    positions = Positions()
    for root in worker.dataflows().values():
        scope = ScopeOnWorker(worker.id, root)
        assert not scope.scopes, f"a dataflow with nested scopes, {root.name!r}, cannot be explored"
        positions.learn(worker, scope)
        scope.look(peers=len(worker.members))
        existing[scope.path] = dict(scope.records)
        scopes[scope.path] = _look_at(scope)
    for capability in capabilities:
        place = positions.outputs.get(id(capability.holder))
        if capability.held and place is not None:
            add(existing[place[0]], (place[1], capability.time), 1)
    for channel, time, container in worker.held():
        path, location = positions.data_channels[channel]
        add(existing[path], (location, time), len(container))
    early = [message for _, message in worker.early() if isinstance(message, Data)]
    assert not early, f"{early} for a dataflow that is not built would go uncounted"
    lent: dict[str, Counts] = {}
    for operator, port, time in membership.member.lent:
        path, location = positions.sources[operator, port]
        add(lent.setdefault(path, {}), (location, time), 1)
    return WorkerView(
        joining=membership.joining,
        gone=membership.parted,
        running=bool(worker.installed_dataflows()),
        scopes=scopes,
        existing=existing,
        lent=lent,
        positions=positions,
        log=frozenset(log.items()),
    )


def _look_at(scope: ScopeOnWorker) -> ScopeView:
    ledger = scope.ledger
    received = dict(ledger.tracker.pointstamps())
    add_all(received, dict(ledger.heard.items()))
    for _, _, changes in ledger.inbox:
        for location, time, delta in changes:
            add(received, (location, time), delta)
    operators = {child.path: child.operator.name for child in scope.subgraph.children()}
    names = tuple(
        f"{type(place).__name__.lower()} {place.port} of {operators[f'{scope.path}.{place.node}']!r}"
        for place in scope.compiled.locations
    )
    frontiers = [
        (f"the frontier at {name}", location, tuple(ledger.tracker.frontier(location).frontier()), True)
        for location, name in enumerate(names)
    ]
    for child, operator in scope.operators:
        for location, handle in zip(child.targets, operator.inputs, strict=True):
            told = tuple(handle.frontier.frontier())
            frontiers.append((f"what {operator.name!r} was told", location, told, operator.notify))
    return ScopeView(received, dict(scope.not_told), tuple(frontiers), names, scope.compiled)


UnderWay: TypeAlias = tuple[WorkerId, WorkerId, Message]
"""Sender, receiver and message."""


@dataclass(slots=True)
class Claims:
    """Checks states of a cluster. What was found to be safe once is remembered."""

    _safe: set[tuple[str, frozenset[Pointstamp], tuple[PortFrontier, ...]]] = field(default_factory=set)
    _implied: dict[tuple[str, frozenset[Pointstamp]], list[Antichain[Time]]] = field(default_factory=dict)

    def check(self, views: Mapping[WorkerId, WorkerView], under_way: list[UnderWay], settled: bool) -> None:
        """Raise `Broken` unless all is safe and all accounts add up; and frontiers are exact, if nothing moves."""
        joined = {message.joiner for _, _, message in under_way if isinstance(message, Joined)}
        taking_part = {worker: view for worker, view in views.items() if not view.joining or worker in joined}
        counted = {worker: view for worker, view in taking_part.items() if not view.gone}
        for path in sorted({path for view in counted.values() for path in view.scopes}):
            existing: Counts = {}
            not_told: Counts = {}
            for view in taking_part.values():
                add_all(existing, view.existing.get(path, {}))
            for view in counted.values():
                add_all(existing, view.lent.get(path, {}))
                if path in view.scopes:
                    add_all(not_told, view.scopes[path].not_told)
            coming = self._count_under_way(path, views, under_way, existing)
            for worker, view in counted.items():
                if path in view.scopes:
                    self._check_safety(path, worker, view.scopes[path], existing, settled)
                    _check_accounts(path, worker, view.scopes[path], existing, not_told, coming.get(worker, {}))

    def _count_under_way(
        self, path: str, views: Mapping[WorkerId, WorkerView], under_way: list[UnderWay], existing: Counts
    ) -> dict[WorkerId, Counts]:
        positions = next(view.positions for view in views.values() if path in view.scopes)
        coming: dict[WorkerId, Counts] = {}
        for _, receiver, message in under_way:
            if isinstance(message, Data):
                scope, location = positions.data_channels[message.channel]
                if scope == path:
                    add(existing, (location, message.time), len(message.container))
            elif isinstance(message, Progress) and positions.progress_channels.get(message.channel) == path:
                counts = coming.setdefault(receiver, {})
                for location, time, delta in message.changes:
                    add(counts, (location, time), delta)
        return coming

    def _check_safety(self, path: str, worker: WorkerId, scope: ScopeView, existing: Counts, settled: bool) -> None:
        pointstamps = frozenset(existing)
        key = path, pointstamps, scope.frontiers
        if key in self._safe and not settled:
            return
        truth = self._implied.get(key[:2])
        if truth is None:
            truth = self._implied[key[:2]] = implied(scope.compiled, pointstamps)
        for what, location, times, prompt in scope.frontiers:
            for time in truth[location]:
                if not any(least <= time for least in times):  # type: ignore[operator]
                    raise Unsafe(f"on worker {worker}, {what} is {_times(times)}, but {time!r} could still turn up")
            if settled and prompt and set(times) != set(truth[location]):
                raise Broken(
                    f"nothing is under way, and on worker {worker} {what} is {_times(times)}; what exists implies "
                    f"{_times(truth[location])}"
                )
        self._safe.add(key)


def _check_accounts(
    path: str, worker: WorkerId, scope: ScopeView, existing: Counts, not_told: Counts, coming: Counts
) -> None:
    total = dict(scope.received)
    add_all(total, not_told)
    add_all(total, coming)
    if total != existing:
        raise Broken(f"worker {worker}, dataflow {path}: {total} is accounted for, {existing} exists")


def _times(times: Iterable[Time]) -> str:
    return "{" + ", ".join(map(repr, times)) + "}"
