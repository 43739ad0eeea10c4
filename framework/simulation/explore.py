"""All that can happen to a small cluster: every order of steps, programs and frames, instead of a random one.

A move is one worker's: its program goes on, or it steps and takes the oldest frames of its links, as many of each as
one likes and in any order across links. (When a frame arrives, before the step that takes it, nobody can tell; so
arrivals are part of the step.) States are visited breadth first: what is found wrong is found by a shortest way. In
each state the claims of `views` are checked; in the end, that every end is as it should be, and can be reached from
every state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import TypeAlias

from framework.membership.members import Members, WorkerId
from framework.membership.messages import Enlisted, Joined
from framework.simulation.actor import DEAD, Act, Actor, ActorState, ActorStatus, Arrivals, Frame, Given, Reaction, Role
from framework.simulation.views import Broken, Claims, WorkerView
from framework.wire.messages import Lost, Message, Progress, decode

Cluster: TypeAlias = tuple[tuple[int, ...], tuple[tuple[Frame, ...], ...]]
"""The number of each worker's state, and what is on each link."""

Ends: TypeAlias = Mapping[WorkerId, tuple[ActorStatus, WorkerView]]


@dataclass(frozen=True, slots=True)
class Death:
    """A worker ends without a word; of the frames on each of its links the first `survive` still arrive."""

    survive: tuple[int, ...]


Transition: TypeAlias = tuple[WorkerId, Given | Death]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster to be explored."""

    roles: tuple[Role, ...]
    judge: Callable[[Ends], str | None]
    """What is wrong with an end, if anything."""
    goodbyes: bool = False
    """Whether workers part when all is done, as `Worker.finish` does."""
    restless: bool = False
    """Whether a worker that is given something steps on until it has nothing to do, before it is given more. There are
    far fewer states then, and fewer orders."""
    arrivals_max: int = 99
    """How many frames a step takes at most."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came of an exploration."""

    states: int
    transitions: int
    ends: int
    worker_states: int
    worker_moves: int
    seconds: float
    broken: Broken | None = None
    trace: tuple[str, ...] = ()
    """How to get there."""

    def __str__(self) -> str:
        return (
            f"{self.states:,} states, {self.transitions:,} transitions, {self.ends} ends; of single workers "
            f"{self.worker_states:,} states, {self.worker_moves:,} moves; {self.seconds:.1f} s"
        )


def explore(configuration: Scenario, *, seeking: type[Broken] = Broken, states_max: int = 5_000_000) -> Found:
    """Explore until something is found, or all is seen. Faults other than what is sought end a way, without a word."""
    return _Exploration(configuration, seeking, states_max).run()


class _Exploration:
    def __init__(self, configuration: Scenario, seeking: type[Broken], states_max: int) -> None:
        self._configuration = configuration
        self._seeking = seeking
        self._states_max = states_max
        roles = configuration.roles
        founders = Members(0, tuple(role.worker for role in roles if role.server is None))
        self._actors = {
            role.worker: Actor(role, founders, goodbyes=configuration.goodbyes, restless=configuration.restless)
            for role in roles
        }
        self._workers = tuple(self._actors)
        self._positions = {worker: position for position, worker in enumerate(self._workers)}
        self._links = [(a, b) for a in self._workers for b in self._workers if a != b]
        self._at = {link: index for index, link in enumerate(self._links)}
        self._messages: dict[Frame, Message] = {}
        self._claims = Claims()
        self._numbers: dict[Cluster, int] = {}
        self._ways: list[tuple[Cluster, Transition] | None] = []
        self._before: list[list[int]] = []
        self._transitions = 0
        self._ends: list[int] = []

    def run(self) -> Found:
        began_s, broken, trace = perf_counter(), None, tuple[str, ...]()
        try:
            self._explore()
        except _Fault as fault:
            broken, trace = fault.broken, tuple(self._trace(fault))
        actors = self._actors.values()
        for actor in actors:
            actor.close()
        return Found(
            len(self._numbers),
            self._transitions,
            len(self._ends),
            sum(len(actor.states) for actor in actors),
            sum(actor.moves for actor in actors),
            perf_counter() - began_s,
            broken,
            trace,
        )

    # The search

    def _explore(self) -> None:
        first = self._first()
        waiting = deque([first])
        self._visit(first, None)
        while waiting:
            cluster = waiting.popleft()
            number, final = self._numbers[cluster], True
            for move in self._moves(cluster):
                after = self._after(cluster, move)
                if after is None or after == cluster:
                    continue
                final = False
                self._transitions += 1
                if after not in self._numbers and self._visit(after, (cluster, move)):
                    waiting.append(after)
                self._before[self._numbers[after]].append(number)
            if final:
                self._ends.append(number)
                self._judge(cluster)
        self._check_completion()

    def _first(self) -> Cluster:
        """Founders have built their dataflows and know that of each other; joiners have asked to join."""
        cluster: Cluster = (tuple(0 for _ in self._workers), tuple(() for _ in self._links))
        founders = [worker for worker, actor in self._actors.items() if actor.role.server is None]
        for worker in founders:
            cluster = self._send(cluster, worker, self._actors[worker].first)
        before = None
        while before != cluster:
            before = cluster
            for worker in founders:
                *_, all_frames = sorted(self._arrivals(cluster, worker), key=len)
                after = self._after(cluster, (worker, all_frames))
                assert after is not None
                cluster = after
        for worker in self._actors.keys() - founders:
            cluster = self._send(cluster, worker, self._actors[worker].first)
        return cluster

    def _visit(self, cluster: Cluster, way: tuple[Cluster, Transition] | None) -> bool:
        """Check a new state; whether to go on from it."""
        if len(self._numbers) == self._states_max:
            raise _Fault(Broken(f"there are more than {self._states_max:,} states"), way, None)
        self._numbers[cluster] = len(self._numbers)
        self._ways.append(way)
        self._before.append([])
        try:
            views = {worker: self._state(cluster, worker).view for worker in self._workers}
            self._claims.check(views, self._under_way(cluster), self._settled(cluster))
        except Broken as broken:
            if isinstance(broken, self._seeking):
                raise _Fault(broken, way, cluster) from None
            return False
        return True

    def _settled(self, cluster: Cluster) -> bool:
        """Whether nothing is under way and nobody has anything to do before a program goes on."""
        numbers, links = cluster
        return not any(links) and all(
            self._actors[worker].move(number, ()).state == number
            for worker, number in zip(self._workers, numbers, strict=True)
            if self._state(cluster, worker).status is ActorStatus.HERE and self._state(cluster, worker).steps
        )

    def _judge(self, cluster: Cluster) -> None:
        states = {worker: self._state(cluster, worker) for worker in self._workers}
        wrong = self._configuration.judge({worker: (state.status, state.view) for worker, state in states.items()})
        stuck = [
            worker
            for worker, state in states.items()
            if state.status is ActorStatus.HERE and (state.view.running or self._configuration.goodbyes)
        ]
        if any(cluster[1]) or stuck:
            wrong = f"nobody can move, and workers {stuck} are not done; under way: {self._under_way(cluster)}"
        if wrong is not None and issubclass(Broken, self._seeking):
            raise _Fault(Broken(wrong), self._ways[self._numbers[cluster]], cluster)

    def _check_completion(self) -> None:
        """From every state an end can be reached."""
        reached, waiting = set(self._ends), list(self._ends)
        while waiting:
            for before in self._before[waiting.pop()]:
                if before not in reached:
                    reached.add(before)
                    waiting.append(before)
        for cluster, number in self._numbers.items():
            if number not in reached and issubclass(Broken, self._seeking):
                raise _Fault(Broken("from here there is no end"), self._ways[number], cluster)

    # Moves

    def _moves(self, cluster: Cluster) -> Iterator[Transition]:
        for worker in self._workers:
            state = self._state(cluster, worker)
            if state.status is not ActorStatus.HERE:
                continue
            if state.programmed:
                yield worker, Act.RESUME
            if state.steps:
                for arrivals in self._arrivals(cluster, worker):
                    yield worker, arrivals
            if self._actors[worker].role.mortal and self._may_die(cluster, worker):
                for death in self._deaths(cluster, worker):
                    yield worker, death

    def _deaths(self, cluster: Cluster, worker: WorkerId) -> Iterator[Death]:
        """Of what a joiner has said, its last words may be lost; and are, if with them one who is dead would join."""
        counts = []
        for (sender, _), on in zip(self._links, cluster[1], strict=True):
            if sender == worker:
                here = [index for index, frame in enumerate(on) if isinstance(self._message(frame), Enlisted)]
                counts.append(range(min(here, default=len(on)) + 1))
        return map(Death, product(*counts))

    def _arrivals(self, cluster: Cluster, worker: WorkerId) -> Iterator[Arrivals]:
        """What a step can take: the oldest frames of each link, in any order across links."""
        queues = [
            (sender, on)
            for sender in self._workers
            if sender != worker and (on := cluster[1][self._at[sender, worker]])
        ]
        waiting: list[tuple[Arrivals, tuple[int, ...]]] = [((), (0,) * len(queues))]
        while waiting:
            arrivals, taken = waiting.pop()
            yield arrivals
            if len(arrivals) < self._configuration.arrivals_max:
                for index, (sender, on) in enumerate(queues):
                    if taken[index] < len(on):
                        more = (*taken[:index], taken[index] + 1, *taken[index + 1 :])
                        waiting.append(((*arrivals, (sender, on[taken[index]])), more))

    def _may_die(self, cluster: Cluster, worker: WorkerId) -> bool:
        """Whether a joiner can go away without ending the job: until its server has heard that it is still there."""
        return self._state(cluster, worker).view.joining and not any(
            receiver == worker and isinstance(message, Joined) for _, receiver, message in self._under_way(cluster)
        )

    def _after(self, cluster: Cluster, move: Transition) -> Cluster | None:
        """The state that a move leads to; None if it leads to a fault that is not sought."""
        worker, given = move
        if isinstance(given, Death):
            return self._after_death(cluster, worker, given)
        reaction = self._actors[worker].move(self._number(cluster, worker), given)
        if reaction.failure is not None:
            if issubclass(Broken, self._seeking):
                raise _Fault(Broken(f"worker {worker}: {reaction.failure}"), (cluster, move), None)
            return None
        numbers, links = cluster
        if not isinstance(given, Act) and given:
            left = list(links)
            for sender, _ in given:
                at = self._at[sender, worker]
                left[at] = left[at][1:]
            links = tuple(left)
        return self._send((numbers, links), worker, reaction)

    def _send(self, cluster: Cluster, worker: WorkerId, reaction: Reaction) -> Cluster:
        """Put what was sent on the links, and end those of a worker that has gone."""
        position = self._positions[worker]
        numbers = (*cluster[0][:position], reaction.state, *cluster[0][position + 1 :])
        links = cluster[1]
        if reaction.sent:
            filled = list(links)
            for peer, frame in reaction.sent:
                there = self._state(cluster, peer)
                if there.status is ActorStatus.HERE:
                    filled[self._at[worker, peer]] += (frame,)
                elif worker not in there.parted and self._state((numbers, ()), worker).view.joining:
                    filled[self._at[peer, worker]] += (Lost("it has gone"),)
            links = tuple(filled)
        after = (numbers, links)
        if self._state(after, worker).status is not ActorStatus.HERE:
            return self._cut(after, worker)
        return after

    def _after_death(self, cluster: Cluster, worker: WorkerId, death: Death) -> Cluster:
        survive = iter(death.survive)
        links = tuple(
            on[: next(survive)] if a == worker else on for (a, _), on in zip(self._links, cluster[1], strict=True)
        )
        return self._cut((cluster[0], links), worker, dead=True)

    def _cut(self, cluster: Cluster, worker: WorkerId, *, dead: bool = False) -> Cluster:
        """End the links of a worker that has gone: those that were not told find out."""
        state = self._state(cluster, worker)
        links = dict(zip(self._links, cluster[1], strict=True))
        for peer in self._workers:
            if peer != worker:
                linked = peer in state.linked or (links[peer, worker] and peer not in state.parted)
                links[peer, worker] = ()
                if linked and self._state(cluster, peer).status is ActorStatus.HERE:
                    links[worker, peer] += (Lost("it has gone"),)
        numbers = cluster[0]
        if dead:
            numbers = tuple(DEAD if w == worker else n for w, n in zip(self._workers, numbers, strict=True))
        return numbers, tuple(links.values())

    # Looking at a state

    def _number(self, cluster: Cluster, worker: WorkerId) -> int:
        return cluster[0][self._positions[worker]]

    def _state(self, cluster: Cluster, worker: WorkerId) -> ActorState:
        return self._actors[worker].state(self._number(cluster, worker))

    def _under_way(self, cluster: Cluster) -> list[tuple[WorkerId, WorkerId, Message]]:
        return [
            (sender, receiver, self._message(frame))
            for (sender, receiver), on in zip(self._links, cluster[1], strict=True)
            for frame in on
        ]

    def _message(self, frame: Frame) -> Message:
        message = self._messages.get(frame)
        if message is None:
            message = self._messages[frame] = frame if isinstance(frame, Lost) else decode(frame)
        return message

    # Telling

    def _trace(self, fault: _Fault) -> Iterator[str]:
        way, moves = fault.way, []
        while way is not None:
            moves.append(way)
            way = self._ways[self._numbers[way[0]]]
        for count, (cluster, (worker, given)) in enumerate(reversed(moves), 1):
            yield f"{count:2}. {self._tell(cluster, worker, given)}"
        yield f"    {fault.broken}"

    def _tell(self, cluster: Cluster, worker: WorkerId, given: Given | Death) -> str:
        match given:
            case Death(survive):
                return f"worker {worker} dies; {sum(survive)} of its frames still arrive"
            case Act():
                what = f"worker {worker}: {given.value}"
            case _:
                took = ", ".join(f"{self._name(frame)} from {sender}" for sender, frame in given)
                what = f"worker {worker} steps" + (f", takes {took}" if took else "")
        reaction = self._actors[worker].move(self._number(cluster, worker), given)
        sent = ", ".join(f"{self._name(frame)} to {peer}" for peer, frame in reaction.sent)
        return what + (f"; sends {sent}" if sent else "")

    def _name(self, frame: Frame) -> str:
        message = self._message(frame)
        if isinstance(message, Progress):
            changes = ", ".join(f"{self._place(at)} at {time!r}: {delta:+}" for at, time, delta in message.changes)
            return f"Progress #{message.sequence} ({changes})"
        return type(message).__name__

    def _place(self, location: int) -> str:
        for actor in self._actors.values():
            for scope in actor.state(0).view.scopes.values():
                return scope.names[location]
        return str(location)


class _Fault(Exception):
    """What was found, by which move, and in which state, if the move got that far."""

    def __init__(self, broken: Broken, way: tuple[Cluster, Transition] | None, cluster: Cluster | None) -> None:
        self.broken = broken
        self.way = way
        self.cluster = cluster
