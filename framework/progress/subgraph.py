"""A scope at run time: a graph of operators that is itself an operator of the scope around it.

Child 0 stands for the surroundings. What enters the scope leaves child 0's outputs; what leaves it arrives at child 0's
inputs. A scope is scheduled in six steps (`schedule`): four turn what was heard into frontiers, the fifth runs the
operators, and the sixth tells the other workers what these did.

A scope's own broadcasts make what it knows global, so it reports to its surroundings on behalf of all workers
(`local` is false), consumption and capabilities together: at no moment does a record that entered lack a pointstamp
on either level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

from framework.events import Events, FrontierChanged, OperatorScheduled, ProgressReceived, ProgressSent
from framework.membership.members import Members, WorkerId
from framework.progress.change_batch import ChangeBatch
from framework.progress.domain import Nesting
from framework.progress.graph import Compiled, Connectivity
from framework.progress.location import Source, Target
from framework.progress.order import Time
from framework.progress.reachability import Tracker
from framework.progress.sequence import Sequences
from framework.progress.shared import Operator, SharedProgress

ProgressUpdate = tuple[int, Time, int]
"""A location, a time, and how many pointstamps more there are."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What a scope needs of its worker."""

    worker: WorkerId
    members: Callable[[], Members]
    broadcast: Callable[[int, tuple[ProgressUpdate, ...]], None]
    """Send a numbered batch to all other members."""
    activate: Callable[[], None]
    """Ask for this scope to be scheduled."""
    events: Events


@dataclass(frozen=True, slots=True)
class ProgressState:
    """All that a scope has heard: what a worker that joins must be told.

    Only records and capabilities are in it. What stands for them at the borders of scopes follows from them, and each
    worker works that out for itself.
    """

    pointstamps: dict[tuple[int, Time], int]
    exits: dict[tuple[int, Time], int]
    """Records that have left the scope, of which it has yet to tell its surroundings."""
    next_in: dict[WorkerId, int]
    """By sender, the number of the next batch."""
    next_out: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """Every change that a scope knows of, by how far it has come on its way into the tracker; live, for reading."""

    done: ChangeBatch[tuple[int, Time]]
    inbox: list[tuple[WorkerId, int, tuple[ProgressUpdate, ...]]]
    heard: ChangeBatch[tuple[int, Time]]
    tracker: Tracker
    sequences: Sequences


class Child:
    """An operator, and where its ports are in the graph."""

    __slots__ = ("fans_out", "incomplete", "operator", "path", "sources", "targets")

    def __init__(self, operator: Operator, path: str) -> None:
        self.operator = operator
        self.path = path
        self.incomplete = False
        self.targets: list[int] = []
        self.sources: list[int] = []
        self.fans_out: list[list[tuple[int, bool]]] = []
        """Per output: the locations that it feeds, and whether each record goes to all workers there."""


class Subgraph:
    """One scope on one worker."""

    notify = True
    local = False

    def __init__(self, name: str, path: str, nesting: Nesting, compiled: Compiled, outside: Outside) -> None:
        self.name = name
        self.path = path
        self._nesting = nesting
        self._compiled = compiled
        self._outside = outside
        self._tracker = Tracker(compiled)
        self._sequences = Sequences()
        self._children: dict[int, Child] = {}
        self._active: list[int] = []
        self._activated: set[int] = set()
        self._inbox: list[tuple[WorkerId, int, tuple[ProgressUpdate, ...]]] = []
        self._done: ChangeBatch[tuple[int, Time]] = ChangeBatch()
        """What this worker's operators did and has not told the others."""
        self._heard: ChangeBatch[tuple[int, Time]] = ChangeBatch()
        """What happened on any worker, told or reported, and is not yet in the tracker."""
        inputs = len(compiled.through)
        outputs = sum(1 for location in compiled.locations if isinstance(location, Target) and location.node == 0)
        self.shared = SharedProgress.empty(inputs, outputs)
        self.connection: Connectivity = [
            [type(paths)(map(nesting.leave_summary, paths)) for paths in to_outputs] for to_outputs in compiled.through
        ]
        self.entered: list[ChangeBatch[Time]] = [ChangeBatch() for _ in range(inputs)]
        """Per input: records that came in since the last scheduling; counted by those who hand them in."""
        self._entrances = {compiled.ids[Source(0, port)]: port for port in range(inputs)}
        self._exits = {compiled.ids[Target(0, port)]: port for port in range(outputs)}
        self.entrance_fans_out: list[list[tuple[int, bool]]] = [[] for _ in range(inputs)]
        """Per input: what `Child.fans_out` is to an output."""
        self.initial: list[list[tuple[Time, int]]] = [[] for _ in range(outputs)]
        self._owner_of_target: dict[int, tuple[int, int]] = {}
        self._must_tell = False

    # Building

    def adopt(self, index: int, operator: Operator, fans_out: list[list[tuple[Target, bool]]], starters: int) -> None:
        """Take in the graph's operator `index`; `starters` workers start it with its initial capabilities."""
        ids = self._compiled.ids
        child = Child(operator, f"{self.path}.{index}")
        child.targets = [ids[Target(index, port)] for port in range(len(operator.shared.consumed))]
        child.sources = [ids[Source(index, port)] for port in range(len(operator.shared.produced))]
        child.fans_out = [[(ids[target], copies) for target, copies in targets] for targets in fans_out]
        self._children[index] = child
        for port, location in enumerate(child.targets):
            self._owner_of_target[location] = (index, port)
            # Operators start with the least time in their frontiers; the tracker's first word replaces it.
            operator.shared.frontiers[port].update(self._nesting.inner.minimum, -1)
        for location, initial in zip(child.sources, operator.initial, strict=True):
            for time, count in initial:
                self._tracker.update(location, time, count * starters if operator.local else count)
        self.activate(index)

    def inherit(
        self, state: ProgressState | None, batches: list[tuple[WorkerId, int, tuple[ProgressUpdate, ...]]]
    ) -> None:
        """Begin with what another worker has heard, if it has begun, and with batches that it passed on."""
        if state is not None:
            for (location, time), count in state.pointstamps.items():
                self._tracker.update(location, time, count)
            for exit_, delta in state.exits.items():
                self._heard.update(exit_, delta)
            self._sequences.next_in.update(state.next_in)
        self._inbox += batches

    def count_starters(self, change: int) -> None:
        """`change` more workers than was thought start with the initial capabilities."""
        for child in self._children.values():
            if child.operator.local:
                for location, initial in zip(child.sources, child.operator.initial, strict=True):
                    for time, count in initial:
                        self._heard.update((location, time), count * change)
        self._outside.activate()

    def open(self, fans_out: list[list[tuple[Target, bool]]]) -> None:
        """Close the building phase: derive the first frontiers and what the scope may emit from the start."""
        ids = self._compiled.ids
        self.entrance_fans_out = [[(ids[target], copies) for target, copies in targets] for targets in fans_out]
        for location in self._entrances:
            self._tracker.update(location, self._nesting.inner.minimum, 1)
        self._propagate()
        self.initial = [internal.drain() for internal in self.shared.internal]

    # Activation and messages

    def activate(self, index: int) -> None:
        """Have the child scheduled at the next opportunity."""
        if index not in self._activated:
            self._activated.add(index)
            heappush(self._active, index)
            self._outside.activate()

    def receive(self, sender: WorkerId, sequence: int, changes: tuple[ProgressUpdate, ...]) -> None:
        """Take a batch from another worker; it counts from the next scheduling on."""
        self._inbox.append((sender, sequence, changes))
        self._outside.activate()

    def lend(self, location: int, time: Time, count: int) -> None:
        """Announce capabilities of another worker, at a time for which this worker holds one; or their end."""
        self._done.update((location, time), count)
        self._must_tell = True
        self._outside.activate()

    def schedule(self) -> bool:
        """Run the scope once; tell whether it has anything left to do."""
        self._accept_frontier()
        self._harvest_inputs()
        self._hear_peers()
        self._propagate()
        self._run_children()
        self._tell_peers()
        if self._heard or self._inbox or self._active:
            self._outside.activate()
        return (
            bool(self._heard or self._inbox or self._done)
            or any(child.incomplete for child in self._children.values())
            or self._tracker.tracking_anything()
        )

    def _accept_frontier(self) -> None:
        """The surroundings' frontier becomes pointstamps at child 0's outputs."""
        for location, changes in zip(self._entrances, self.shared.frontiers, strict=True):
            for time, change in changes.drain():
                self._tracker.update(location, self._nesting.enter(time), change)

    def _harvest_inputs(self) -> None:
        """Records that came in are now at the inputs that child 0 feeds, and no longer before the scope."""
        for (entrance, port), entered in zip(self._entrances.items(), self.entered, strict=True):
            for time, count in entered.drain():
                self._produce(self.entrance_fans_out[port], time, count, into=self._done)
                self._done.update((entrance, time), -count)

    def _hear_peers(self) -> None:
        for sender, sequence, changes in self._inbox:
            self._sequences.accept(sender, sequence)
            for location, time, delta in changes:
                self._heard.update((location, time), delta)
            if self._outside.events.listening:
                self._outside.events.emit(ProgressReceived(self.path, sender, sequence, len(changes)))
        self._inbox.clear()

    def _propagate(self) -> None:
        leave, shared = self._nesting.leave, self.shared
        for (location, time), delta in self._heard.drain():
            if location in self._entrances:
                shared.consumed[self._entrances[location]].update(leave(time), -delta)
            elif location in self._exits:
                shared.produced[self._exits[location]].update(leave(time), delta)
            else:
                self._tracker.update(location, time, delta)
        frontier_changes, output_changes = self._tracker.propagate()
        for location, time, change in frontier_changes:
            owner = self._owner_of_target.get(location)
            if owner is not None:
                index, port = owner
                operator = self._children[index].operator
                operator.shared.frontiers[port].update(time, change)
                if operator.notify:
                    self.activate(index)
        if self._outside.events.listening:
            for location, time, change in frontier_changes:
                self._outside.events.emit(FrontierChanged(self.path, self._compiled.locations[location], time, change))
        for port, time, change in output_changes:
            shared.internal[port].update(leave(time), change)

    def _run_children(self) -> None:
        """Run active children once each, in order; who is activated behind the current one waits for the next round."""
        previous = 0
        later: list[int] = []
        while self._active:
            index = heappop(self._active)
            if index <= previous:
                later.append(index)
                continue
            previous = index
            self._activated.discard(previous)
            child = self._children[previous]
            events = self._outside.events
            if events.listening:
                started_s = events.clock()
                child.incomplete = child.operator.schedule()
                duration_s, shared = events.clock() - started_s, child.operator.shared
                events.emit(OperatorScheduled(child.path, duration_s, _total(shared.consumed), _total(shared.produced)))
            else:
                child.incomplete = child.operator.schedule()
            self._extract(child, into=self._done if child.operator.local else self._heard)
        for index in later:
            heappush(self._active, index)

    def _extract(self, child: Child, into: ChangeBatch[tuple[int, Time]]) -> None:
        """What the child reports becomes changes of pointstamps."""
        shared = child.operator.shared
        for location, consumed in zip(child.targets, shared.consumed, strict=True):
            for time, count in consumed.drain():
                into.update((location, time), -count)
        for location, internal in zip(child.sources, shared.internal, strict=True):
            for time, change in internal.drain():
                into.update((location, time), change)
        for fans_out, produced in zip(child.fans_out, shared.produced, strict=True):
            for time, count in produced.drain():
                self._produce(fans_out, time, count, into)

    def _produce(
        self, fans_out: list[tuple[int, bool]], time: Time, count: int, into: ChangeBatch[tuple[int, Time]]
    ) -> None:
        for location, to_all in fans_out:
            into.update((location, time), count * len(self._outside.members()) if to_all else count)

    def _tell_peers(self) -> None:
        """Broadcast what was done once somebody's frontier may depend on it (timely's demand mode)."""
        if not self._must_tell and not self._matters():
            return
        self._must_tell = False
        changes = tuple((location, time, delta) for (location, time), delta in self._done.drain())
        sequence = self._sequences.stamp()
        self._outside.broadcast(sequence, changes)
        self._inbox.append((self._outside.worker, sequence, changes))
        if self._outside.events.listening:
            self._outside.events.emit(ProgressSent(self.path, sequence, len(changes)))

    def _matters(self) -> bool:
        """Whether a subtraction could move a frontier, or the surroundings must hear of records that came or went."""
        return any(
            self._is_border(location) or (delta < 0 and self._tracker.is_global(location, time))
            for (location, time), delta in self._done.items()
        )

    def _is_border(self, location: int) -> bool:
        return location in self._entrances or location in self._exits

    # Looking in

    def progress_state(self) -> ProgressState:
        """What a worker that joined now would have to be told."""
        derived = {
            location for child in self._children.values() if not child.operator.local for location in child.sources
        }
        pointstamps, exits = ChangeBatch[tuple[int, Time]](), dict[tuple[int, Time], int]()
        for key, count in self._tracker.pointstamps().items():
            if key[0] not in derived and not self._is_border(key[0]):
                pointstamps.update(key, count)
        for key, delta in self._heard.items():
            if key[0] in self._exits:
                exits[key] = delta
            elif key[0] not in derived:
                pointstamps.update(key, delta)
        return ProgressState(dict(pointstamps.items()), exits, dict(self._sequences.next_in), self._sequences.next_out)

    @property
    def batches_sent(self) -> int:
        """How many batches this worker has told the others."""
        return self._sequences.next_out

    def uncounted(self) -> bool:
        """Whether something was sent that is not yet in the accounts; between steps, rarely."""
        return any(map(len, self.entered)) or any(
            (isinstance(child.operator, Subgraph) and child.operator.uncounted())
            or any(map(len, child.operator.shared.produced))
            for child in self._children.values()
        )

    def untold(self) -> bool:
        """Whether something was done here that no batch has told of."""
        return (
            bool(self._done)
            or self.uncounted()
            or any(
                (isinstance(child.operator, Subgraph) and child.operator.untold())
                or any(map(len, (*child.operator.shared.consumed, *child.operator.shared.internal)))
                for child in self._children.values()
            )
        )

    def tell_all(self) -> None:
        """Have the next scheduling broadcast what was done, however little it matters."""
        self._must_tell = bool(self._done)
        for child in self._children.values():
            if isinstance(child.operator, Subgraph):
                child.operator.tell_all()
        if self._done:
            self._outside.activate()

    @property
    def compiled(self) -> Compiled:
        """The graph that the scope runs."""
        return self._compiled

    @property
    def nesting(self) -> Nesting:
        """How its times look from outside."""
        return self._nesting

    def children(self) -> list[Child]:
        """The operators and scopes in it, in order."""
        return [self._children[index] for index in sorted(self._children)]

    def ledger(self) -> Ledger:
        """What the scope knows, piece by piece."""
        return Ledger(self._done, self._inbox, self._heard, self._tracker, self._sequences)

    def shut_down(self) -> None:
        """Shut every child down."""
        for child in self._children.values():
            child.operator.shut_down()


def _total(batches: list[ChangeBatch[Time]]) -> int:
    return sum(count for batch in batches for _, count in batch.items())
