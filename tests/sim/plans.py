"""Random dataflows, as data.

A plan is drawn from a seed and says which operators, scopes, loops and edges there are, what sources send, and what an
operator answers to a record. It is pure: workers install it (`chaos`), and `reference` computes from it alone what
every input must receive, whatever the interleaving.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from framework.progress.domain import Domain
from framework.progress.order import Product, Time
from framework.progress.summary import Local, Outer, Summary, results_in

Record: TypeAlias = tuple[int, int, int, int, int, int]
"""Value, hops left, and who sent it: operator, output, worker, and the how-manieth from there."""

StreamId = int
OperatorId = int


@dataclass(frozen=True, slots=True)
class Edge:
    """What an input is fed by, and how records travel."""

    stream: StreamId
    pact: str


@dataclass(frozen=True, slots=True)
class Unasked:
    """Something that an operator sends without having received anything."""

    worker: int
    output: int
    time: Time
    value: int


@dataclass(slots=True)
class OperatorPlan:
    """An operator that answers each record in a way of its own, and takes its time over it."""

    id: OperatorId
    depth: int
    inputs: list[Edge | None]
    """None: attached later, to close a loop."""
    outputs: list[StreamId]
    connection: dict[tuple[int, int], tuple[Summary, ...]]
    """Between an input and an output; what is not said is the identity."""
    capabilities: bool
    notify: bool
    unasked: list[Unasked] = field(default_factory=list)
    answers_all: bool = False
    """Whether every record gets an answer, as in a loop."""

    def may_wait(self) -> bool:
        """Whether it may hold answers back until their time is complete at its inputs.

        Who is not woken by frontiers would wait for ever; and so would, in a loop, who advances times itself: what it
        holds at its output could come back to its input at that very time.
        """
        still = all(Domain(self.depth).identity in summaries for summaries in self.connection.values() if summaries)
        return self.notify and still

    def answers(self, port: int, time: Time, value: int, hops: int) -> Iterator[tuple[int, Time, Time, int]]:
        """Output, earliest possible and actual time, and value of what a record results in."""
        if hops == 0:
            return
        for output in range(len(self.outputs)):
            dice = _mix(value, self.id, port, output)
            summaries = self.connection.get((port, output), (Domain(self.depth).identity,))
            if not summaries or (dice % 3 == 0 and not self.answers_all):
                continue
            earliest = results_in(summaries[dice // 3 % len(summaries)], time)
            assert earliest is not None, "times stay far from the last one"
            actual = later(earliest, dice // 64) if dice // 16 % 4 == 0 and not self.answers_all else earliest
            yield output, earliest, actual, dice % 100_003


@dataclass(slots=True)
class SourcePlan:
    """A source that the program drives from outside the dataflow, worker by worker."""

    id: OperatorId
    depth: int
    output: StreamId
    script: list[list[list[int] | int]]
    """Per worker: values to send at once, or which coordinate of the time to advance."""

    def sends(self, worker: int) -> Iterator[tuple[Time, int]]:
        """Time and value of all that one worker sends."""
        time = Domain(self.depth).minimum
        for action in self.script[worker]:
            if isinstance(action, list):
                for value in action:
                    yield time, value
            else:
                time = later(time, action)


@dataclass(slots=True)
class Loop:
    """Attach the input of an operator that was left open."""

    operator: OperatorId
    edge: Edge


@dataclass(slots=True)
class Enter:
    """Bring a stream into the scope at hand."""

    outer: StreamId
    inner: StreamId


@dataclass(slots=True)
class Leave:
    """Bring a stream out of the scope at hand."""

    inner: StreamId
    outer: StreamId


@dataclass(slots=True)
class ScopePlan:
    """A nested scope."""

    iterative: bool
    body: list[Item]


Item: TypeAlias = OperatorPlan | SourcePlan | Loop | Enter | Leave | ScopePlan


@dataclass(slots=True)
class DataflowPlan:
    """One dataflow."""

    body: list[Item]
    hops: int = 6
    """How many operators a record's descendants pass at most."""
    dropped: bool = False
    """Whether it is dropped half-way."""


def later(time: Time, coordinate: int) -> Time:
    """The next time after `time` in one of its coordinates (modulo their number, from the innermost)."""
    if isinstance(time, int):
        return time + 1
    if coordinate % (depth_of(time) + 1) == 0:
        return Product(time.outer, time.inner + 1)
    return Product(later(time.outer, coordinate % (depth_of(time) + 1) - 1), time.inner)


def depth_of(time: Time) -> int:
    """How many nested coordinates a time has."""
    return 0 if isinstance(time, int) else 1 + depth_of(time.outer)


def random_summary(random: Random, depth: int, *, advancing: bool) -> Summary:
    """A summary for the times of a scope with `depth` nested coordinates."""
    least = 1 if advancing else 0
    if depth == 0:
        return random.choice((least, least, least + 1))
    if random.random() < 0.25:
        return Outer(random_summary(random, depth - 1, advancing=True), random.choice((0, 0, 1)))
    return Local(random.choice((least, least, least + 1)))


class Planner:
    """Draws a dataflow."""

    def __init__(self, random: Random, workers: int) -> None:
        self._random = random
        self._workers = workers
        self._streams = 0
        self._operators = 0

    def dataflow(self) -> DataflowPlan:
        """A dataflow with at least one source."""
        body: list[Item] = []
        streams: list[StreamId] = []
        self._source(body, streams, 0)
        self._fill(body, streams, depth=0, level=0)
        return DataflowPlan(body)

    def _fill(self, body: list[Item], streams: list[StreamId], *, depth: int, level: int) -> None:
        random = self._random
        loops: list[OperatorPlan] = []
        for _ in range(random.randint(1, 5 - level)):
            dice = random.random()
            if dice < 0.12 or not streams:
                self._source(body, streams, depth)
            elif dice < 0.3:
                loops.append(self._feedback(body, streams, depth))
            elif dice < 0.52 and level < 2:
                self._nested(body, streams, depth=depth, level=level)
            else:
                self._operator(body, streams, depth)
        for loop in loops:
            if random.random() < 0.95:
                body.append(Loop(loop.id, self._edge(streams)))

    def _stream(self, streams: list[StreamId]) -> StreamId:
        self._streams += 1
        streams.append(self._streams)
        return self._streams

    def _edge(self, streams: list[StreamId]) -> Edge:
        recent = streams[-3:] if self._random.random() < 0.7 else streams
        return Edge(self._random.choice(recent), self._random.choice(("pipeline", "exchange", "exchange", "broadcast")))

    def _source(self, body: list[Item], streams: list[StreamId], depth: int) -> None:
        random = self._random
        script: list[list[list[int] | int]] = []
        for _ in range(self._workers):
            actions: list[list[int] | int] = []
            for _ in range(random.choice((0, 1, 2, 3, 4))):
                if random.random() < 0.6:
                    actions.append([random.randrange(100_003) for _ in range(random.choice((1, 1, 2, 3)))])
                else:
                    actions.append(random.randint(0, depth))
            script.append(actions)
        self._operators += 1
        body.append(SourcePlan(self._operators, depth, self._stream(streams), script))

    def _operator(self, body: list[Item], streams: list[StreamId], depth: int) -> None:
        random = self._random
        inputs: list[Edge | None] = [self._edge(streams) for _ in range(random.choice((1, 1, 1, 2, 3)))]
        outputs = random.choice((0, 1, 1, 1, 2))
        connection = {
            (i, o): tuple(random_summary(random, depth, advancing=False) for _ in range(random.choice((0, 1, 1, 2))))
            for i in range(len(inputs))
            for o in range(outputs)
            if random.random() < 0.4
        }
        self._operators += 1
        plan = OperatorPlan(
            self._operators,
            depth,
            inputs,
            [self._stream(streams) for _ in range(outputs)],
            connection,
            capabilities=random.random() < 0.25,
            notify=random.random() < 0.8,
        )
        if plan.capabilities and outputs:
            for _ in range(random.choice((0, 1, 2))):
                time = Domain(depth).minimum
                for _ in range(random.choice((0, 1, 2))):
                    time = later(time, random.randint(0, depth))
                where = random.randrange(self._workers), random.randrange(outputs)
                plan.unasked.append(Unasked(*where, time, random.randrange(100_003)))
        body.append(plan)

    def _feedback(self, body: list[Item], streams: list[StreamId], depth: int) -> OperatorPlan:
        self._operators += 1
        plan = OperatorPlan(
            self._operators,
            depth,
            [None],
            [self._stream(streams)],
            {(0, 0): (random_summary(self._random, depth, advancing=True),)},
            capabilities=False,
            notify=self._random.random() < 0.3,
            answers_all=True,
        )
        body.append(plan)
        return plan

    def _nested(self, body: list[Item], streams: list[StreamId], *, depth: int, level: int) -> None:
        random = self._random
        iterative = random.random() < 0.75
        inside: list[Item] = []
        inner: list[StreamId] = []
        for _ in range(random.choice((0, 1, 1, 1, 2))):
            inside.append(Enter(random.choice(streams), self._stream(inner)))
        if random.random() < 0.95:  # else it has nothing in it but what passes through
            self._fill(inside, inner, depth=depth + iterative, level=level + 1)
        for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
            if inner:
                inside.append(Leave(random.choice(inner[-3:]), self._stream(streams)))
        body.append(ScopePlan(iterative, inside))


def _mix(*numbers: int) -> int:
    """A number that depends on all of `numbers`, the same in every process."""
    mixed = 17
    for number in numbers:
        mixed = (mixed * 1_000_003 + number * 7_919 + 12_345) % 2_147_483_647
    return mixed ^ (mixed >> 11)
