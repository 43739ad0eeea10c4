"""One seed of a cluster that grows and shrinks: workers join through random members, leave, and die while they join.

Every worker, the joiners included, feeds records that are exchanged, some of them around a loop, and told apart by
epoch. Whatever happens, each record arrives once, at its own time, and before its time was said to be complete; and the
run ends. `Invariants` watches the progress protocol below.

In a second kind of run, workers build another dataflow at moments of their own, before, during and after joins and
leaves. How many workers start it is then something that they learn of at different times, so of that dataflow only the
above is claimed, not how its accounts add up on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.notificator import Notificator
from framework.membership.members import WorkerId
from framework.progress.order import Time
from framework.simulation.cluster import Pace, SimulatedCluster
from framework.simulation.invariants import Invariants
from framework.worker.worker import Worker
from operators import Input
from operators.stream import Stream

EPOCHS_MAX = 12


@dataclass(slots=True)
class Outcome:
    """How much a seed has exercised."""

    moves: int
    joined: int
    left: int
    killed: int


class Run:
    """A cluster and what its programs sent and received."""

    def __init__(self, seed: int, trace_moves: int, second: bool) -> None:
        self.random = Random(seed)
        self.founders = self.random.choice((1, 2, 2, 2, 3, 3))
        self.cluster = SimulatedCluster(
            workers=self.founders,
            seed=seed,
            congested_frames=self.random.choice((4, 1_000_000)),
            pace=Pace.uneven(self.random, self.founders + 4),
            replay=f"python -m pytest tests/sim/test_rescale.py --sim-seed {seed} --sim-trace 60",
            trace_moves=trace_moves,
        )
        self.seed = seed
        self.loops = self.random.random() < 0.4
        self.joins = self.random.choice((0, 1, 1, 2, 3, 4))
        self.leaves = self.random.choice((0, 0, 1, 2, 3))
        self.kills = self.random.choice((0, 0, 0, 1))
        self.sent: Counter[tuple[Time, tuple[int, int]]] = Counter()
        self.received: Counter[tuple[Time, tuple[int, int]]] = Counter()
        self.ids = self.random.sample(range(self.founders, self.founders + 4), 4)
        self.joined = self.left = self.killed = 0
        self.leaving: set[WorkerId] = set()
        self.second = second
        self.second_has_records = self.random.random() < 0.7
        """Without them, a worker may leave that has not built it."""

    def program(self, worker: Worker) -> Iterator[None]:
        """Build, become a member, feed, perhaps leave."""
        dice = Random(f"{self.seed}/{worker.index}")
        numbers = self._build(worker, "numbers", loops=self.loops)
        others: list[Input[tuple[int, int]]] = []
        heritage = worker.membership.joiner.inheritance if worker.membership.joiner is not None else None
        if heritage is not None and heritage.built > 1:
            others.append(self._build(worker, "others", loops=False))
        yield
        while worker.membership.joining:
            yield
        self.joined += worker.membership.joined
        yield from self._feed(worker, numbers, others, dice)

    def _build(self, worker: Worker, name: str, *, loops: bool) -> Input[tuple[int, int]]:
        numbers = Input[tuple[int, int]](name)
        complete: set[Time] = set()

        def check(input: InputHandle, output: OutputHandle, notificator: Notificator) -> None:
            for capability, rows in input:
                assert capability.time not in complete, f"{rows} at {capability.time} after that was complete"
                self.received.update((capability.time, row) for row in rows)
                notificator.notify_at(capability.retain())
            for due in notificator:
                complete.add(due.time)

        def around(looping: Stream[tuple[int, int]]) -> tuple[Stream[tuple[int, int]], Stream[tuple[int, int]]]:
            again, out = looping.exchange(lambda row: row[0]).branch(lambda _, row: row[1] == 0)
            return again.map(lambda row: (row[0] + 1, row[1] - 1)), out

        with worker.dataflow() as scope:
            stream = numbers.stream(scope).exchange(lambda row: row[0])
            if loops:
                stream = stream.iterate(around)
            stream.unary_notify(check)
        return numbers

    def _feed_others(self, worker: Worker, others: list[Input[tuple[int, int]]], dice: Random) -> None:
        """Build the second dataflow, sooner or later, and feed it."""
        if not others and dice.random() < 0.2:
            others.append(self._build(worker, "others", loops=False))
        elif others and not others[0].closed:
            if self.second_has_records and dice.random() < 0.7:
                row = (100 + dice.randrange(8), 0)
                self.sent[others[0].time, row] += 1
                others[0].send(row)
            others[0].advance_to(others[0].time + 1)

    def _feed(
        self, worker: Worker, numbers: Input[tuple[int, int]], others: list[Input[tuple[int, int]]], dice: Random
    ) -> Iterator[None]:
        while not numbers.closed and numbers.time < EPOCHS_MAX:
            for _ in range(dice.choice((0, 1, 1, 3))):
                row = (dice.randrange(8), dice.randrange(3) if self.loops else 0)
                arrives = (row[0] + row[1], 0) if self.loops else row
                self.sent[numbers.time, arrives] += 1
                numbers.send(row)
            numbers.flush()
            if self.second:
                self._feed_others(worker, others, dice)
            yield
            if self._should_leave(worker, dice):
                if self.second and self.second_has_records and not others:
                    others.append(self._build(worker, "others", loops=False))
                yield from self._leave(worker, [numbers, *others])
                return
            numbers.advance_to(numbers.time + dice.choice((1, 1, 2)))
            yield
            self._change(worker, dice)
        if self.second and not others:
            self._build(worker, "others", loops=False)

    def _change(self, worker: Worker, dice: Random) -> None:
        if self.joins and dice.random() < 0.2 and worker.id in worker.members.workers:
            self.joins -= 1
            joiner = WorkerId(self.ids.pop())
            self.cluster.join(joiner, worker.id, self.program)
        if self.kills and dice.random() < 0.5:
            joining = [id_ for id_ in self.cluster.workers if self._may_die(id_)]
            if joining:
                self.kills -= 1
                self.killed += 1
                self.cluster.kill(dice.choice(joining))

    def _may_die(self, joiner: WorkerId) -> bool:
        """Whether a joiner can be killed without ending the job: until its server enlists it."""
        worker = self.cluster.workers[joiner]
        if joiner in self.cluster.departed or not worker.membership.joining:
            return False
        servers = [other for id_, other in self.cluster.workers.items() if id_ not in self.cluster.departed]
        serving = [other.membership.member.serving for other in servers]
        return not any(one is not None and one.joiner == joiner and one.stage.name == "ENLISTING" for one in serving)

    def _should_leave(self, worker: Worker, dice: Random) -> bool:
        staying = [member for member in worker.members.workers if member not in self.leaving]
        return bool(self.leaves) and len(staying) > 1 and dice.random() < 0.15

    def _leave(self, worker: Worker, inputs: list[Input[tuple[int, int]]]) -> Iterator[None]:
        self.leaves -= 1
        self.leaving.add(worker.id)
        for numbers in inputs:
            numbers.close()
        worker.membership.begin_leave()
        while not worker.membership.gone:
            yield
        self.left += 1


def run_seed(seed: int, *, trace_moves: int = 0, second: bool = False) -> Outcome:
    """Raise unless everything holds on the way, and each record arrived once."""
    run = Run(seed, trace_moves, second)
    with Invariants(run.cluster) as invariants:
        if second:
            invariants.abandon(1)
        run.cluster.run(run.program, moves_max=30_000)
        invariants.check_ended()
    assert run.received == run.sent, f"too few {run.sent - run.received}, too many {run.received - run.sent}"
    return Outcome(run.cluster.moves, run.joined, run.left, run.killed)
