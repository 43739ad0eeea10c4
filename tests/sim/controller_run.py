"""One seed of a migration controller under fire: goals come, change and end at random, and so do workers.

Worker 0 commands through a `Steward`; everybody, joiners included, feeds records to one or two operators on bins.
Workers join, die while they join, and leave, asked by a `Resize` or of their own; bins are assigned, spread, cancelled,
and moved by others behind the controller's back. *Correctness*: the outputs of each epoch are those of a single thread.
*The controller*: it commands no bin to a worker that may not own it, no step exceeds its bound, every goal ends, and
when nothing is left to do, what was to be spread is. *Completion*: the run ends.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from framework.errors import GraphError
from framework.membership.members import WorkerId
from framework.simulation.cluster import SimulatedCluster, SimulatedPace
from framework.simulation.invariants import Invariants
from framework.worker.worker import Worker
from operators import BinOptions, ControlInput, Input
from operators.job.steward import Steward
from routing.bins import BinId
from routing.commands import Bootstrap, Configuration, Handover, Move, Refused, Retirement, Weighing
from routing.errors import GoalRefused
from routing.load import costs
from routing.migration.balance import spread
from routing.migration.goals import STRATEGIES, Assign, GoalState, Rebalance, Resize
from routing.migration.goals import Pace as Pace
from routing.migration.pacing import StepBudget, heaviest_sender
from routing.registry import groups_on
from routing.router_operator import ControlReport
from tests.sim.bins_rescale_run import count
from tests.sim.rescale_run import joiners_that_may_die

EPOCHS = 24

Row = tuple[str, int]


@dataclass(slots=True)
class Outcome:
    """How much a seed has exercised."""

    goals: Counter[str]
    """By how they ended."""
    steps: int
    joined: int
    left: int
    killed: int
    refused: int
    """Goals that were refused when they were asked for."""


class Run:
    """A cluster, its controller, and what came of it."""

    def __init__(self, seed: int, trace_moves: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.founders = self.random.choice((1, 2, 2, 3))
        self.cluster = SimulatedCluster(
            workers=self.founders,
            seed=seed,
            congested_frames=self.random.choice((4, 1_000_000)),
            pace=SimulatedPace.uneven(self.random, self.founders + 6),
            replay=f"python -m pytest tests/sim/test_migration_controller.py --sim-seed {seed} --sim-trace 60",
            trace_moves=trace_moves,
        )
        self.cluster.after_move.append(self.strike)
        self.bins = self.random.choice(((8,), (16,), (4, 16)))
        """Of each operator; those that differ are of different groups."""
        self.foreign = self.random.random() < 0.3
        """Whether commands are sent behind the controller's back."""
        self.kills = self.random.choice((0, 0, 1, 2))
        self.next_id = self.founders
        self.sent: list[Counter[str]] = [Counter() for _ in range(EPOCHS)]
        self.got: dict[tuple[int, int], Counter[Any]] = defaultdict(Counter)
        self.decided: dict[tuple[int, int, int | None], ControlReport] = {}
        self.expected: set[WorkerId] = set()
        """Workers that were asked to join."""
        self.killed: set[WorkerId] = set()
        self.may_leave: set[WorkerId] = set()
        self.wishing: set[WorkerId] = set()
        self.joined = self.left = 0
        self.commander: Commander | None = None
        self.over = False

    def program(self, worker: Worker) -> Iterator[None]:
        """Build, become a member, feed, and leave if asked to."""
        dice = Random(f"{self.seed}/{worker.index}")
        records, control = Input[Row]("records"), ControlInput()
        with worker.dataflow() as scope:
            commands, stream = control.stream(scope).broadcast(), records.stream(scope)
            for number, bins in enumerate(self.bins):
                options = BinOptions(bins, report=self._reporter(number), chunk_bytes_max=dice.choice((1, 10_000)))
                counted = stream.stateful_state_machine(count, initial=0, control=commands, bins=options)
                counted.inspect_time(self._keeper(number))
        yield
        while worker.membership.joining:
            yield
        self.joined += worker.membership.joined
        if worker.id:
            control.close()
            yield from self._feed(worker, records, dice)
        else:
            self.commander = Commander(self, worker, records, control, dice)
            yield from self.commander.run()

    def _reporter(self, number: int) -> Any:
        def report(outcome: ControlReport) -> None:
            if isinstance(outcome, Configuration | Handover | Retirement | Weighing | Refused):
                known = self.decided.setdefault((number, outcome.time, outcome.sequence), outcome)
                assert outcome == known, f"one worker decided {outcome}, another {known}"

        return report

    def _keeper(self, number: int) -> Any:
        def keep(time: Any, row: tuple[str, int]) -> None:
            self.got[number, time][row] += 1

        return keep

    def send(self, epoch: int, records: Input[Row], dice: Random) -> None:
        for _ in range(dice.choice((0, 1, 3))):
            key = f"key {dice.randrange(12)}"
            self.sent[epoch][key] += 1
            records.send((key, 1))
        records.flush()

    def _feed(self, worker: Worker, records: Input[Row], dice: Random) -> Iterator[None]:
        while not records.closed and records.time < EPOCHS and worker.id not in self.may_leave:
            self.send(records.time, records, dice)
            yield
            records.advance_to(records.time + 1)
            if worker.id not in self.wishing and dice.random() < 0.01:
                self.wishing.add(worker.id)
                worker.membership.wish_to_leave()
            yield
        records.close()
        while worker.installed_dataflows():
            if worker.id in self.may_leave - self.wishing:
                self.wishing.add(worker.id)
                worker.membership.wish_to_leave()
            if worker.id in self.wishing:
                try:
                    worker.membership.begin_leave()
                except GraphError:
                    yield
                    continue
                while not worker.membership.gone and worker.installed_dataflows():
                    yield
                self.left += worker.membership.gone
                return
            yield

    def strike(self, _: WorkerId) -> None:
        """Perhaps kill a joiner."""
        for joiner in joiners_that_may_die(self.cluster) if self.kills else ():
            if self.random.random() < 0.01:
                self.kills -= 1
                self.killed.add(joiner)
                self.cluster.kill(joiner)
                return


class Commander:
    """Worker 0's program: feeds, asks for what comes to its mind, and checks what the controller makes of it."""

    def __init__(self, run: Run, worker: Worker, records: Input[Row], control: ControlInput, dice: Random) -> None:
        self.run_ = run
        self.worker = worker
        self.records = records
        self.control = control
        self.dice = dice
        self.steward = Steward(worker, control)
        self.steward.controller.budget = StepBudget(bytes_max=60, bytes_min=30)  # a bin has some tens of bytes
        self.refused = 0
        self.steps = 0
        self.resized: dict[int, tuple[WorkerId, ...]] = {}
        """The leavers of each `Resize`."""
        self.ends_at_once = dice.random() < 0.3
        """Whether the inputs end while something may be under way, be it a step that is due in an hour."""
        self._seen: object = None
        self._send = control.send
        control.send = self._check_and_send  # type: ignore[method-assign]

    def run(self) -> Iterator[None]:
        while self.records.time < EPOCHS:
            self.run_.send(self.records.time, self.records, self.dice)
            yield
            self._do_something()
            self._follow()
            self.steward.advance_to(self.records.time + 1)
            yield
            self.records.advance_to(self.records.time + 1)
            yield
        self.records.close()
        while not self.ends_at_once and self.steward.busy:
            self._follow()
            self.steward.advance_to(self.control.time)
            yield
        self.worker.membership.close()
        self.steward.controller.close(self.worker.events.clock())
        while self.steward.busy:
            self._follow()
            self.steward.advance_to(self.control.time)
            yield
        self._follow()
        self._check_end()
        self.control.close()

    def goals(self) -> list[GoalState]:
        return self.steward.goals()

    # What is asked for

    def _do_something(self) -> None:
        dice = self.dice
        if dice.random() < 0.75:
            return
        asked = (self._assign, self._assign, self._rebalance, self._resize, self._resize, self._cancel, self._meddle)
        what = dice.choice(asked)
        try:
            what()
        except GoalRefused:
            self.refused += 1

    def _pace(self) -> Pace:
        gap_s = self.dice.choice((0.0, 0.0, 0.005, 3600.0 if self.ends_at_once else 0.0))
        return Pace(self.dice.choice(list(STRATEGIES)), gap_s)

    def _assign(self) -> None:
        groups = groups_on(self.worker)
        name = self.dice.choice(list(groups))
        bins = groups[name][0].bins.count
        owners = {
            BinId(self.dice.randrange(bins)): WorkerId(self.dice.randrange(self.run_.next_id + 1)) for _ in range(3)
        }
        self.steward.start(Assign(name, owners), "assign", self._pace())

    def _rebalance(self) -> None:
        self.steward.start(Rebalance(), "rebalance", self._pace())

    def _resize(self) -> None:
        run, dice = self.run_, self.dice
        members = [member for member in self.worker.members.workers if member not in run.may_leave | run.wishing]
        for _ in range(dice.choice((0, 1, 1, 2)) if run.next_id < run.founders + 5 else 0):
            joiner = WorkerId(run.next_id)
            run.next_id += 1
            run.expected.add(joiner)
            run.cluster.join(joiner, WorkerId(0), run.program)
        joining = tuple(sorted(run.expected - run.killed - self.worker.membership.complete))
        others = [member for member in members if member]
        leaving = tuple(dice.sample(others, dice.randrange(len(others) + 1)) if dice.random() < 0.5 else ())
        number = self.steward.start(Resize(joining, leaving), "resize", self._pace())
        self.resized[number] = leaving

    def _cancel(self) -> None:
        self.steward.cancel()

    def _meddle(self) -> None:
        """Move a bin as somebody would who knows of no controller; two sets may meet at one epoch."""
        if self.run_.foreign:
            group, operators = self.dice.choice(list(groups_on(self.worker).items()))
            bin_id = BinId(self.dice.randrange(operators[0].bins.count))
            self._send(Move(bin_id, self.dice.choice(sorted(operators[0].eligible())), group))

    def _follow(self) -> None:
        """Tell the controller of the dead, and leavers that they may go."""
        for joiner in self.run_.killed:
            self.steward.not_coming(joiner)
        for goal in self.goals():
            assert 0 <= goal.bins_moved <= goal.bins, goal
            if goal.status == "reached":
                self.run_.may_leave |= set(self.resized.get(goal.number, ()))

    # What is checked

    def _check_and_send(self, *instructions: Any) -> int:
        groups = groups_on(self.worker)
        controller = self.steward.controller
        for instruction in instructions:
            match instruction:
                case Move(_, worker, name):
                    assert name is not None
                    for operator in groups[name]:
                        assert worker in operator.eligible(), f"{instruction} to one of {operator.eligible()}"
                case Bootstrap(_, joiner):
                    assert joiner in self.worker.membership.complete
        step = controller.under_way
        if step is not None and isinstance(instructions[0], Move):
            self.steps += 1
            senders, receivers = Counter[WorkerId](), Counter[WorkerId]()
            for source, target in {(one.source, one.target) for one in step.transfers}:
                senders[source] += 1
                receivers[target] += 1
            if controller.pace.strategy == "paced":
                assert max(senders.values()) == max(receivers.values()) == 1, step
                most = max(senders_bins(step).values())
                assert most == 1 or heaviest_sender(step) <= controller.budget.bytes_max, step
        return self._send(*instructions)

    def _check_end(self) -> None:
        for goal in self.goals():
            assert goal.finished, goal
        if not self.run_.foreign:
            refused = [one for one in self.run_.decided.values() if isinstance(one, Refused)]
            assert not refused, refused
        if any(goal.status == "cancelled" for goal in self.goals()):
            return  # workers whose share was cancelled may have joined since
        last = self.goals()[-1] if self.goals() else None
        asked = self.steward.controller.book.goals[last.number].goal if last else None
        if last is None or last.status != "reached" or not isinstance(asked, Rebalance | Resize) or self.run_.foreign:
            return
        for name, operators in groups_on(self.worker).items():
            weighed = operators[0].weighed()
            assert weighed is not None
            owners = operators[0].table.owners_at(2**62)
            gone = self.run_.wishing - {*owners}  # who wishes to leave when the inputs have ended stays
            leaving = {*(self.resized[max(self.resized)] if self.resized else ()), *gone}
            eligible = operators[0].eligible() - leaving
            assert spread(owners, eligible, costs(weighed.weights)) == owners, (name, owners, eligible)


def senders_bins(step: Any) -> Counter[WorkerId]:
    """How many bins each worker sends in a step."""
    return Counter(transfer.source for transfer in step.transfers)


def run_seed(seed: int, *, trace_moves: int = 0) -> Outcome:
    """Raise unless everything holds."""
    run = Run(seed, trace_moves)
    with Invariants(run.cluster) as invariants:
        run.cluster.run(run.program, moves_max=120_000)
        invariants.check_ended()
    totals: Counter[str] = Counter()
    wanted: dict[int, Counter[Any]] = {}
    for epoch, keys in enumerate(run.sent):
        results = Counter((key, totals[key] + n + 1) for key, times in keys.items() for n in range(times))
        totals.update(keys)
        if results:
            wanted[epoch] = results
    for number in range(len(run.bins)):
        got = {epoch: rows for (operator, epoch), rows in run.got.items() if operator == number}
        assert got == wanted, f"seed {seed}, operator {number}"
    commander = run.commander
    assert commander is not None
    return Outcome(
        Counter(goal.status for goal in commander.goals()),
        commander.steps,
        run.joined,
        run.left,
        len(run.killed),
        commander.refused,
    )
