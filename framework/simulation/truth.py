"""What is truly there in a simulated cluster, counted from records and capabilities themselves.

Records are found where they are: in input queues, in output buffers, on links, in inboxes. Capabilities are known from
their birth (`observe_capabilities`) and counted for as long as they are held. From these follow the true frontiers.
Nothing here asks the progress machinery what it believes; `invariants` compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar
from weakref import WeakSet

from framework.dataflow.capability import Capability, observe_capabilities
from framework.dataflow.operator import BuiltOperator
from framework.membership.members import WorkerId
from framework.progress.antichain import Antichain
from framework.progress.graph import Compiled
from framework.progress.location import Source, Target
from framework.progress.order import Time
from framework.progress.shared import SharedProgress
from framework.progress.subgraph import Child, Subgraph
from framework.progress.summary import results_in
from framework.worker.worker import Worker

Pointstamp: TypeAlias = tuple[int, Time]
Counts: TypeAlias = dict[Pointstamp, int]
Frontiers: TypeAlias = dict[str, list[Antichain[Time]]]
"""By scope, the least times of each location."""

K = TypeVar("K", bound=Hashable)


def add(counts: dict[K, int], key: K, delta: int) -> None:
    """Count, and forget what comes to nothing."""
    count = counts.get(key, 0) + delta
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)


def add_all(counts: dict[K, int], others: Mapping[K, int], times: int = 1) -> None:
    """Count all of `others`, each `times` times."""
    for key, count in others.items():
        add(counts, key, times * count)


class ScopeOnWorker:
    """One scope on one worker: its parts, sorted by kind, and what was found in them when last looked at."""

    def __init__(self, worker: WorkerId, subgraph: Subgraph) -> None:
        self.worker = worker
        self.subgraph = subgraph
        self.path = subgraph.path
        self.compiled = subgraph.compiled
        self.ledger = subgraph.ledger()
        ids = self.compiled.ids
        self.entrances = {ids[Source(0, port)]: port for port in range(len(subgraph.shared.consumed))}
        self.exits = {ids[Target(0, port)]: port for port in range(len(subgraph.shared.produced))}
        self.operators: list[tuple[Child, BuiltOperator]] = []
        self.scopes: list[tuple[Child, ScopeOnWorker]] = []
        for child in subgraph.children():
            if isinstance(child.operator, BuiltOperator):
                self.operators.append((child, child.operator))
            else:
                assert isinstance(child.operator, Subgraph), child.operator
                self.scopes.append((child, ScopeOnWorker(worker, child.operator)))
        self.all_scopes: list[ScopeOnWorker] = [scope for _, nested in self.scopes for scope in nested.all_scopes]
        self.all_scopes.append(self)
        projected = {location for child, _ in self.scopes for location in child.sources}
        self.not_counted = projected | self.entrances.keys() | self.exits.keys()
        """Where no records or capabilities are: a scope's outputs stand for what is inside it, its borders for what is
        outside."""
        self.initial: Counts = {}
        """The capabilities that operators start with, on each worker."""
        for child, operator in self.operators:
            for location, initial in zip(child.sources, operator.initial, strict=True):
                for time, count in initial:
                    add(self.initial, (location, time), count)
        self.records: Counts = {}
        self.buffered: list[Pointstamp] = []
        """Records that were given and not passed on, by the output that they wait at."""
        self.not_told: Counts = {}

    def look(self, peers: int) -> None:
        """Count the records in this scope, and what was done in it and no batch has told of."""
        records: Counts = {}
        self.buffered = []
        not_told = dict(self.ledger.done.items())
        for child, operator in self.operators:
            for location, handle in zip(child.targets, operator.inputs, strict=True):
                for time, container in handle.queued():
                    add(records, (location, time), len(container))
            for output, time in operator.released():
                # The garbage collector has it; it counts until it is given back.
                add(records, (child.sources[operator.outputs.index(output)], time), 1)
            for location, output in zip(child.sources, operator.outputs, strict=True):
                time, count = output.buffered()
                if count:
                    self.buffered.append((location, time))
            for location, internal in zip(child.sources, operator.shared.internal, strict=True):
                for time, delta in internal.items():
                    add(not_told, (location, time), delta)
            moved(child, operator.shared, not_told, peers)
        for (entrance, port), entered in zip(self.entrances.items(), self.subgraph.entered, strict=True):
            for time, count in entered.items():
                add(not_told, (entrance, time), -count)
                for target, to_all in self.subgraph.entrance_fans_out[port]:
                    add(not_told, (target, time), count * peers if to_all else count)
        self.records, self.not_told = records, not_told


def moved(child: Child, shared: SharedProgress, counts: Counts, peers: int) -> None:
    """Add what a child has consumed and produced to the counts of the locations concerned."""
    for location, consumed in zip(child.targets, shared.consumed, strict=True):
        for time, count in consumed.items():
            add(counts, (location, time), -count)
    for fans_out, produced in zip(child.fans_out, shared.produced, strict=True):
        for time, count in produced.items():
            for target, to_all in fans_out:
                add(counts, (target, time), count * peers if to_all else count)


class Census:
    """The capabilities that are held, on all workers."""

    def __init__(self) -> None:
        self._capabilities: WeakSet[Capability] = WeakSet()
        self.close: Callable[[], None] = observe_capabilities(self._capabilities.add)

    def held(self) -> Iterator[Capability]:
        """All that are held."""
        return (capability for capability in self._capabilities if capability.held)


class Positions:
    """Where inputs, outputs and channels are in the graph, by scope and location."""

    def __init__(self) -> None:
        self.inputs: dict[int, tuple[str, int]] = {}
        self.outputs: dict[int, tuple[str, int]] = {}
        self.sources: dict[tuple[str, int], tuple[str, int]] = {}
        """By operator and port."""
        self.data_channels: dict[int, tuple[str, int]] = {}
        self.progress_channels: dict[int, str] = {}

    def learn(self, worker: Worker, root: ScopeOnWorker) -> None:
        """Take in a dataflow that `worker` has built. Handles are told apart by identity; `root` keeps them alive."""
        for scope in root.all_scopes:
            for child, operator in scope.operators:
                for location, handle in zip(child.targets, operator.inputs, strict=True):
                    self.inputs[id(handle)] = scope.path, location
                for port, (location, output) in enumerate(zip(child.sources, operator.outputs, strict=True)):
                    self.outputs[id(output)] = scope.path, location
                    self.sources[child.path, port] = scope.path, location
        for channel, end in worker.channels().items():
            if isinstance(end, Subgraph):
                self.progress_channels[channel] = end.path
            elif id(end) in self.inputs:
                self.data_channels[channel] = self.inputs[id(end)]


def implied(compiled: Compiled, pointstamps: Iterable[Pointstamp]) -> list[Antichain[Time]]:
    """Per location, the least times that the pointstamps could result in: by walking every path, without memory.

    Deliberately naive; the tracker is held against it.
    """
    least: list[Antichain[Time]] = [Antichain() for _ in compiled.locations]
    waiting = [pointstamp for pointstamp in pointstamps if least[pointstamp[0]].insert(pointstamp[1])]
    while waiting:
        location, time = waiting.pop()
        for follower, summary in compiled.successors[location]:
            result = results_in(summary, time)
            if result is not None and least[follower].insert(result):
                waiting.append((follower, result))
    return least


class TrueFrontiers:
    """What could turn up where, given what exists. What was once worked out is kept."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, frozenset[Pointstamp]], list[Antichain[Time]]] = {}

    def of(self, built: Mapping[WorkerId, ScopeOnWorker], existing: Mapping[str, Counts]) -> Frontiers:
        """The frontiers of all scopes of a dataflow; a list that did not change is the same list as before."""
        root = next(iter(built.values()))
        inside: dict[str, set[Pointstamp]] = {path: set() for path in (scope.path for scope in root.all_scopes)}
        for root_on_worker in built.values():
            for scope in root_on_worker.all_scopes:
                inside[scope.path].update(scope.buffered)
        frontiers: Frontiers = {}
        self._lift(root, existing, inside)
        self._descend(root, inside, frontiers)
        return frontiers

    def _lift(self, scope: ScopeOnWorker, existing: Mapping[str, Counts], inside: dict[str, set[Pointstamp]]) -> None:
        """Bottom up: what is inside a scope may come out of it."""
        here = inside[scope.path]
        here.update(pointstamp for pointstamp, count in existing.get(scope.path, {}).items() if count > 0)
        for child, nested in scope.scopes:
            self._lift(nested, existing, inside)
            leave = nested.subgraph.nesting.leave
            implications = self._implied(nested, inside[nested.path])
            for exit_location, port in nested.exits.items():
                here.update((child.sources[port], leave(time)) for time in implications[exit_location])

    def _descend(self, scope: ScopeOnWorker, inside: dict[str, set[Pointstamp]], frontiers: Frontiers) -> None:
        """Top down: what is before a scope may enter it."""
        frontiers[scope.path] = here = self._implied(scope, inside[scope.path])
        for child, nested in scope.scopes:
            enter = nested.subgraph.nesting.enter
            for entrance, port in nested.entrances.items():
                inside[nested.path].update((entrance, enter(time)) for time in here[child.targets[port]])
            self._descend(nested, inside, frontiers)

    def _implied(self, scope: ScopeOnWorker, pointstamps: set[Pointstamp]) -> list[Antichain[Time]]:
        key = scope.path, frozenset(pointstamps)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = implied(scope.compiled, pointstamps)
        return known
