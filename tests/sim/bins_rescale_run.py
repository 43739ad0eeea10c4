"""One seed of bins on a cluster that grows and shrinks: joins, bootstraps, moves, retirements and leaves under fire;
and deaths of joiners.

Worker 0 sends what joins and leaves need, and moves bins about; in some runs worker 1 moves bins as well. Everybody,
joiners included, feeds records, in some runs at two inputs, of which one lags behind. *Correctness*: the outputs of
each epoch are those of a single thread. *Migration*: every update to a key at a time happens at the owner of its bin at
that time, as the accepted commands say, and all workers accept the same. *Completion*: the run ends. `Invariants`
watches below.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from framework.errors import GraphError
from framework.membership.members import WorkerId
from framework.simulation.cluster import SimulatedCluster, SimulatedPace
from framework.simulation.invariants import Invariants
from framework.worker.worker import Worker
from operators import BinOptions, ControlInput, Input
from routing.bins import BinId, Bins
from routing.commands import Configuration, Control, Handover, Instruction, Map, Move, Refused, Retirement
from routing.router_operator import ControlReport, Restored
from tests.cramped import small_regions
from tests.sim.bins_run import aggregate_columns, count_columns
from tests.sim.rescale_run import joiners_that_may_die, records_wait_for

EPOCHS = 14

Row = tuple[str, int]


@dataclass(slots=True)
class Outcome:
    """How much a seed has exercised."""

    moves: int
    restored: int
    retired: int
    left: int
    configurations: int
    from_second: int
    """Of those, how many the second commander has sent."""
    killed: int


def count(key: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    """Counts."""
    return total + n, [(key, total + n)]


class SharedControl(ControlInput):
    """One of several: a set's number follows from its time and sender, and every third time is the second's.

    What it has sent for later must come to mean the same to all, also to who drains and hears nothing new. So nobody
    retires meanwhile; and the second gives bins to founders only, who need no `Bootstrap`.
    """

    sender = WorkerId(0)

    @property
    def owes(self) -> bool:
        return super().owes and self.is_its_turn

    @property
    def is_its_turn(self) -> bool:
        """Whether this sender may use the current epoch: a `Bootstrap` has to be alone at its own."""
        return (self.time % 3 == 2) == (self.sender > 0)

    def _send(self, commands: Sequence[Control]) -> None:
        super()._send([replace(command, sequence=10 * self.time + self.sender) for command in commands])


class Run:
    """A cluster, its commands, and what came of them."""

    def __init__(self, seed: int, trace_moves: int) -> None:
        random = Random(seed)
        self.seed = seed
        self.founders = random.choice((1, 2, 2, 3))
        self.cluster = SimulatedCluster(
            workers=self.founders,
            seed=seed,
            congested_frames=random.choice((4, 1_000_000)),
            pace=SimulatedPace.uneven(random, self.founders + 4),
            replay=f"python -m pytest tests/sim/test_bins_rescale.py --sim-seed {seed} --sim-trace 60",
            trace_moves=trace_moves,
        )
        self.bins = random.choice((2, 8, 16))
        self.exchanged = random.random() < 0.5
        """Whether records are dealt out to all members before they come to F, as in the first rescalable WordCount."""
        self.kind = random.choice(("rows", "rows", "rows", "columns", "aggregates"))
        """How they are counted."""
        self.chunk_bytes_max = random.choice((1, 40, 10_000))
        self.joins = random.choice((1, 1, 2, 3))
        self.kills = random.choice((0, 0, 1))
        self.killed: set[WorkerId] = set()
        self.dice = Random(seed)
        self.cluster.after_move.append(self.strike)
        self.next_id = self.founders
        self.commanders = min(self.founders, random.choice((1, 2, 2)))
        self.inputs = random.choice((1, 2))
        self.ahead = random.choice((0, 3, 6))
        """How many epochs the second is ahead with its commands of its records."""
        self.owners = [WorkerId(index) for index in range(self.founders)]
        """Who may be given bins, as far as worker 0 knows."""
        self.sent: list[Counter[str]] = [Counter() for _ in range(EPOCHS)]
        self.got: dict[int, Counter[Any]] = defaultdict(Counter)
        self.at: dict[tuple[int, BinId], set[int]] = defaultdict(set)
        self.decided: dict[tuple[int, int | None], ControlReport] = {}
        self.restored: set[WorkerId] = set()
        self.retired: set[WorkerId] = set()
        self.left = 0

    def program(self, worker: Worker) -> Iterator[None]:
        """Build, become a member, feed, and leave once retired."""
        dice = Random(f"{self.seed}/{worker.index}")
        records = [Input[Row](f"records {number}") for number in range(self.inputs)]
        control = SharedControl() if self.commanders > 1 else ControlInput()
        if isinstance(control, SharedControl):
            control.sender = worker.id

        def report(outcome: ControlReport) -> None:
            match outcome:
                case Configuration() | Handover() | Retirement() | Refused():
                    known = self.decided.setdefault((outcome.time, outcome.sequence), outcome)
                    assert outcome == known, f"worker {worker.id} decided {outcome}, another {known}"
                case Restored():
                    self.restored.add(worker.id)
            if isinstance(outcome, Retirement):
                self.retired.add(outcome.worker)

        def keep(time: Any, row: tuple[str, int]) -> None:
            self.got[time][row] += 1
            self.at[time, Bins(self.bins).of(row[0])].add(worker.index)

        with worker.dataflow() as scope:
            first, *more = [one.stream(scope) for one in records]
            stream = first.concat(*more)
            if self.exchanged:
                stream = stream.exchange(lambda row: len(row[0]) + row[1])
            options = BinOptions(
                self.bins, report=report, chunk_bytes_max=self.chunk_bytes_max, in_flight_bytes_max=300
            )
            commands = control.stream(scope).broadcast()
            if self.kind == "aggregates":
                aggregate_columns(stream, commands, options).inspect_time(keep)
            elif self.kind == "columns":
                count_columns(count, "record", stream, commands, options).inspect_time(keep)
            else:
                stream.stateful_state_machine(count, initial=0, control=commands, bins=options).inspect_time(keep)
        yield
        while worker.membership.joining:
            yield
        if worker.id >= self.commanders:
            control.close()
        yield from self._feed(worker, records, control, dice)

    def _feed(self, worker: Worker, inputs: list[Input[Row]], control: ControlInput, dice: Random) -> Iterator[None]:
        records, *more = inputs
        commander = _Commander(self, worker, control, dice) if not worker.id else None
        second = not commander and not control.closed
        while not records.closed and (records.time < EPOCHS or (commander and commander.needed)):
            epoch = records.time
            for one in more:
                if one.time < epoch and dice.random() < 0.8:
                    one.advance_to(one.time + 1)
            if epoch >= EPOCHS and commander and not commander.waiting:
                yield
                continue
            for one in inputs if epoch < EPOCHS else ():
                self._send(one, dice)
            yield
            if commander is not None:
                if not isinstance(control, SharedControl) or (
                    control.is_its_turn and (commander.waiting or not control.holds)
                ):
                    commander.act(epoch)
                control.advance_to(epoch + 1)
            elif second:
                assert isinstance(control, SharedControl)
                while control.time <= epoch + self.ahead:
                    if control.is_its_turn and not control.holds:
                        control.send(*self.moves(dice, [owner for owner in self.owners if owner < self.founders]))
                    control.advance_to(control.time + 1)
            if worker.id in self.retired:
                yield from self._leave(worker, inputs, control)
                return
            records.advance_to(epoch + 1)
            yield
        if worker.id in self.retired:
            yield from self._leave(worker, inputs, control)

    def _send(self, records: Input[Row], dice: Random) -> None:
        for _ in range(dice.choice((0, 1, 3))):
            key = f"key {dice.randrange(12)}"
            # Some batches of a few keys are combined before they are sent, or have their keys in dictionaries.
            for _ in range(1 if self.kind == "rows" else dice.choice((1, 10))):
                self.sent[records.time][key] += 1
                records.send((key, 1))
        records.flush()

    def _leave(self, worker: Worker, inputs: list[Input[Row]], control: ControlInput) -> Iterator[None]:
        """Leave as soon as nothing is in the way, unless the job ends before."""
        for one in inputs:
            one.close()
        control.close()
        while worker.installed_dataflows():
            try:
                worker.membership.begin_leave()
                break
            except GraphError:
                yield
        else:
            return
        while not worker.membership.gone:
            yield
        self.left += 1

    def moves(self, dice: Random, owners: Sequence[WorkerId]) -> list[Instruction]:
        """Some bins, to random owners."""
        bins = dice.sample(range(self.bins), dice.randrange(1, min(self.bins, 4) + 1))
        return [Move(BinId(bin_id), dice.choice(owners)) for bin_id in bins]

    def strike(self, _: WorkerId) -> None:
        """Perhaps kill a joiner."""
        for joiner in [one for one in joiners_that_may_die(self.cluster) if self.kills]:
            if self.dice.random() < (0.2 if records_wait_for(joiner, self.cluster) else 0.01):
                self.kills -= 1
                self.killed.add(joiner)
                self.cluster.kill(joiner)

    def owners_by_epoch(self) -> list[list[WorkerId]]:
        """The owner of each bin at each epoch, by what was accepted."""
        owners, tables = Bins(self.bins).initial_owners([WorkerId(index) for index in range(self.founders)]), []
        decided = sorted(
            (outcome for outcome in self.decided.values() if isinstance(outcome, Configuration)),
            key=lambda outcome: (outcome.time, outcome.sequence),
        )
        for epoch in range(EPOCHS):
            for outcome in decided:
                if outcome.time == epoch:
                    for bin_id, worker in outcome.moves.items():
                        owners[bin_id] = worker
            tables.append(list(owners))
        return tables


class _Commander:
    """Sends random commands, and those that joins and leaves need."""

    def __init__(self, run: Run, worker: Worker, control: ControlInput, dice: Random) -> None:
        self._run = run
        self._worker = worker
        self._control = control
        self._dice = dice
        self._bootstrapped: set[WorkerId] = set()
        self._leaver: WorkerId | None = None

    @property
    def waiting(self) -> set[WorkerId]:
        """Workers that have joined and know nothing yet."""
        return self._worker.membership.complete - self._bootstrapped

    @property
    def needed(self) -> bool:
        """Whether somebody waits for a bootstrap."""
        workers = self._run.cluster.workers.keys() - self._run.cluster.departed
        return not {worker for worker in workers if worker >= self._run.founders} <= self._bootstrapped

    def act(self, epoch: int) -> None:
        """Send at most one set of commands."""
        run, dice = self._run, self._dice
        if run.joins and epoch < EPOCHS and dice.random() < 0.4:
            run.joins -= 1
            joiner = WorkerId(run.next_id)
            run.next_id += 1
            members = [member for member in self._worker.members.workers if member not in run.retired]
            run.cluster.join(joiner, dice.choice(members), run.program)
        if self.waiting:
            joiner = min(self.waiting)
            self._bootstrapped.add(joiner)
            self._control.bootstrap(joiner, server=dice.choice(run.owners))
            run.owners.append(joiner)
        elif epoch >= EPOCHS:
            return
        elif self._leaver is not None:
            self._control.retire(self._leaver)
            self._leaver = None
        elif dice.random() < 0.2 and len(run.owners) > 1:
            self._leaver = dice.choice(run.owners[1:])
            run.owners.remove(self._leaver)
            self._control.send(Map(tuple(dice.choice(run.owners) for _ in range(run.bins))))
        elif dice.random() < 0.6:
            self._control.send(*run.moves(dice, run.owners))


def run_seed(seed: int, *, trace_moves: int = 0) -> Outcome:
    """Raise unless everything holds."""
    run = Run(seed, trace_moves)
    with Invariants(run.cluster) as invariants, small_regions():
        run.cluster.run(run.program, moves_max=40_000)
        invariants.check_ended()
    wanted: dict[int, Counter[Any]] = {}
    totals: Counter[str] = Counter()
    for epoch, keys in enumerate(run.sent):
        results = Counter((key, totals[key] + n + 1) for key, times in keys.items() for n in range(times))
        totals.update(keys)
        if run.kind == "aggregates":
            results = Counter((key, totals[key]) for key in keys)
        if results:
            wanted[epoch] = results
    assert run.got == wanted, f"seed {seed}"
    owners = run.owners_by_epoch()
    for (epoch, bin_id), workers in run.at.items():
        owner = owners[epoch][bin_id]
        assert workers == {owner}, f"seed {seed}: bin {bin_id} at {epoch} was on {workers} and belongs to {owner}"
    configurations = [outcome for outcome in run.decided.values() if isinstance(outcome, Configuration)]
    return Outcome(
        run.cluster.moves,
        len(run.restored),
        len(run.retired),
        run.left,
        len(configurations),
        sum(run.commanders > 1 and outcome.sequence % 10 == 1 for outcome in configurations),
        len(run.killed),
    )
