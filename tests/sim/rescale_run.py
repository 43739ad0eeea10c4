"""One seed of a cluster that grows and shrinks: workers join through random members, leave, and die while they join.

Every worker, the joiners included, feeds records that are exchanged or dealt, some of them around a loop, and told
apart by epoch. Whatever happens, each record arrives once, at its own time, and before its time was said to be
complete; and the run ends. Others are broadcast: each arrives once on every worker that was a member when it was sent,
but for those that died. `Invariants` watches the progress protocol below.

In a second kind of run, workers build another dataflow at moments of their own, before, during and after joins and
leaves. How many workers start it is then something that they learn of at different times, so of that dataflow only the
above is claimed, not how its accounts add up on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.notificator import Notificator
from framework.membership.members import WorkerId
from framework.membership.messages import Enlisted, Joined
from framework.progress.order import Time
from framework.simulation.cluster import SimulatedCluster, SimulatedPace
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
    killed_enlisted: int
    """Of those, how many some worker held records for."""


class Run:
    """A cluster and what its programs sent and received."""

    tests = "tests/sim/test_rescale.py"

    def __init__(self, seed: int, trace_moves: int, second: bool) -> None:
        self.random = Random(seed)
        self.founders = self.random.choice((1, 2, 2, 2, 3, 3))
        pace = SimulatedPace.uneven(self.random, self.founders + 4)
        if self.random.random() < 0.4:  # much is sent before they have all heard of the same joiner
            founders = range(self.founders)
            pace.links.update({(WorkerId(a), WorkerId(b)): 0.03 for a in founders for b in founders if a != b})
        self.cluster = SimulatedCluster(
            workers=self.founders,
            seed=seed,
            congested_frames=self.random.choice((4, 1_000_000)),
            pace=pace,
            replay=f"python -m pytest {self.tests} --sim-seed {seed} --sim-trace 60",
            trace_moves=trace_moves,
        )
        self.cluster.after_move.append(self.strike)
        self.seed = seed
        self.dice = Random(seed)
        self.loops = self.random.random() < 0.4
        self.dealt = self.random.random() < 0.3
        self.joins = self.random.choice((0, 1, 1, 2, 3, 4))
        self.leaves = self.random.choice((0, 0, 1, 2, 3))
        self.kills = self.random.choice((0, 1, 1, 2))
        self.addressees: dict[str, set[WorkerId]] = {}
        """By record that is broadcast, the members when it was."""
        self.reached: Counter[tuple[str, WorkerId]] = Counter()
        self.sent: Counter[tuple[Time, tuple[int, int]]] = Counter()
        self.received: Counter[tuple[Time, tuple[int, int]]] = Counter()
        self.ids = self.random.sample(range(self.founders, self.founders + 4), 4)
        self.joined = self.left = self.killed_enlisted = 0
        self.killed: set[WorkerId] = set()
        self.leaving: set[WorkerId] = set()
        self.second = second
        self.second_has_records = self.random.random() < 0.7
        """Without them, a worker may leave that has not built it."""
        self.local = self.random.random() < 0.5
        """Whether what goes around the loop stays on its worker."""

    def program(self, worker: Worker) -> Iterator[None]:
        """Build, become a member, feed, perhaps leave."""
        dice = Random(f"{self.seed}/{worker.index}")
        numbers, notes = self._build(worker, "numbers", loops=self.loops), self._build_broadcast(worker)
        others: list[Input[tuple[int, int]]] = []
        heritage = worker.membership.joiner.inheritance if worker.membership.joiner is not None else None
        if heritage is not None and heritage.built > 2:
            others.append(self._build(worker, "others", loops=False))
        yield
        while worker.membership.joining:
            yield
        self.joined += worker.membership.joined
        yield from self._feed(worker, numbers, notes, others, dice)

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
            if not self.local:
                looping = looping.exchange(lambda row: row[0])
            again, out = looping.branch(lambda _, row: row[1] == 0)
            return again.map(lambda row: (row[0] + 1, row[1] - 1)), out

        with worker.dataflow() as scope:
            stream = numbers.stream(scope)
            stream = stream.deal() if self.dealt else stream.exchange(lambda row: row[0])
            if loops:
                stream = stream.iterate(around)
            stream.unary_notify(check)
        return numbers

    def _build_broadcast(self, worker: Worker) -> Input[str]:
        notes = Input[str]("notes")

        def address(note: str) -> str:
            self.addressees[note] = {*worker.members.workers}
            return note

        def around(looping: Stream[str]) -> tuple[Stream[str], Stream[str]]:
            return looping.map(address).broadcast().branch(lambda _, note: True)

        with worker.dataflow() as scope:
            stream = notes.stream(scope)
            stream = stream.iterate(around) if self.loops else stream.map(address).broadcast()
            stream.inspect(lambda note: self.reached.update([(note, worker.id)]))
        return notes

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
        self,
        worker: Worker,
        numbers: Input[tuple[int, int]],
        notes: Input[str],
        others: list[Input[tuple[int, int]]],
        dice: Random,
    ) -> Iterator[None]:
        while not numbers.closed and numbers.time < EPOCHS_MAX:
            for _ in range(dice.choice((0, 1, 1, 3))):
                row = (dice.randrange(8), dice.randrange(8 if self.local else 3) if self.loops else 0)
                arrives = (row[0] + row[1], 0) if self.loops else row
                self.sent[numbers.time, arrives] += 1
                numbers.send(row)
            numbers.flush()
            if not notes.closed and dice.random() < 0.5:
                notes.send(f"{worker.id}/{numbers.time}")
                notes.advance_to(notes.time + 1)
            if self.second:
                self._feed_others(worker, others, dice)
            yield
            if self._should_leave(worker, dice):
                if self.second and self.second_has_records and not others:
                    others.append(self._build(worker, "others", loops=False))
                yield from self._leave(worker, [numbers, notes, *others])
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

    def strike(self, _: WorkerId) -> None:
        """Perhaps kill or stop a joiner, rather one that records wait for."""
        for joiner in [one for one in joiners_that_may_die(self.cluster) if self.kills]:
            waited_for = records_wait_for(joiner, self.cluster)
            if self.dice.random() < (0.7 if waited_for else 0.001):
                self.kills -= 1
                self.killed.add(joiner)
                self.killed_enlisted += waited_for
                (self.cluster.kill if self.seed % 2 else self.cluster.stop)(joiner)

    def _should_leave(self, worker: Worker, dice: Random) -> bool:
        staying = {*worker.members.workers} - self.leaving - self.killed
        return bool(self.leaves) and len(staying) > 1 and dice.random() < 0.15

    def _leave(self, worker: Worker, inputs: Sequence[Input[Any]]) -> Iterator[None]:
        self.leaves -= 1
        self.leaving.add(worker.id)
        for numbers in inputs:
            numbers.close()
        worker.membership.begin_leave()
        while not worker.membership.gone:
            yield
        self.left += 1


def joiners_that_may_die(cluster: SimulatedCluster) -> list[WorkerId]:
    """Those that can be killed without ending the job: until their server hears that they are still there."""
    known = {
        message.joiner
        for sender, receiver, message in cluster.network.under_way()
        if (isinstance(message, Enlisted) and sender == message.joiner)
        or (isinstance(message, Joined) and receiver == message.joiner)
    }
    joining = {id_ for id_, worker in cluster.workers.items() if worker.membership.joining}
    return sorted(joining - known - cluster.departed)


def records_wait_for(joiner: WorkerId, cluster: SimulatedCluster) -> bool:
    """Whether some member holds records back for `joiner`."""
    return any(worker.held() for worker in cluster.workers.values() if joiner in worker.members.workers)


def run_seed(seed: int, *, trace_moves: int = 0, second: bool = False) -> Outcome:
    """Raise unless everything holds on the way, and each record arrived once."""
    run = Run(seed, trace_moves, second)
    with Invariants(run.cluster) as invariants:
        if second:
            invariants.abandon(2)
        run.cluster.run(run.program, moves_max=30_000)
        invariants.check_ended()
    assert run.received == run.sent, f"too few {run.sent - run.received}, too many {run.received - run.sent}"
    reached = Counter((note, worker) for note, workers in run.addressees.items() for worker in workers - run.killed)
    assert run.reached == reached, f"too few {reached - run.reached}, too many {run.reached - reached}"
    return Outcome(run.cluster.moves, run.joined, run.left, len(run.killed), run.killed_enlisted)
