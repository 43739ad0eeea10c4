"""One seed of bins under fire: random operators, stores and commands; checked against a loop over the epochs.

The three properties of bins, on every seed. *Correctness*: the outputs of each epoch are those of a single thread that
applies the epochs in order. *Migration*: every update to a key at a time happens at the owner of its bin at that time,
by the commands alone. *Completion*: the run ends. `Invariants` watches the progress protocol below.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from framework.membership.members import WorkerId
from framework.simulation.cluster import SimulatedCluster, SimulatedPace
from framework.simulation.invariants import Invariants
from framework.worker.worker import Worker
from operators import BinOptions, ControlInput, Input
from operators.columns import aggregates as agg
from operators.stateful.fold import DISCARD, StateMachine
from operators.stateful.key_value import KeyValue
from operators.stateful.per_bin_logic import BinnedLogic
from operators.stream import Stream
from routing.bins import BinId, Bins
from routing.commands import Control, Instruction, Map, Move, Noop
from routing.placement import OnBins, RowKey
from routing.router_operator import ControlReport
from routing.routing_table import Installation
from routing.state.memory import MemoryStore
from routing.state.per_bin import Bin
from routing.state.store import StoreMaker
from routing.state_operator import StateLogic
from tests.cramped import CrampedMaker, small_dictionaries, small_regions

Row = tuple[str, int]
Epochs = list[list[Row]]


@dataclass(slots=True)
class Shape:
    """What a seed has chosen."""

    workers: int
    bins: int
    epochs: int
    kind: str
    chunk_bytes_max: int
    in_flight_bytes_max: int
    stores: list[StoreMaker]
    """That of each worker."""
    commands: dict[int, list[list[Instruction]]] = field(default_factory=dict)

    @staticmethod
    def choose(random: Random) -> Shape:
        """Roll the dice."""
        workers = random.choice((1, 2, 2, 3, 3, 4))
        on_disk = CrampedMaker() if random.random() < 0.2 else MemoryStore
        shape = Shape(
            workers=workers,
            bins=random.choice((1, 2, 8, 16)),
            epochs=random.randrange(2, 9),
            kind=random.choice(("machine", "machine", "unary", "binary", "columns", "columns per epoch", "aggregates")),
            chunk_bytes_max=random.choice((1, 40, 10_000)),
            in_flight_bytes_max=random.choice((1, 300, 10_000)),
            stores=[random.choice((MemoryStore, on_disk)) for _ in range(workers)],
        )
        for epoch in range(shape.epochs):
            sets = [shape._set(random) for _ in range(random.choice((0, 0, 1, 1, 2)))]
            if sets:
                shape.commands[epoch] = sets
        return shape

    def _set(self, random: Random) -> list[Instruction]:
        match random.randrange(8):
            case 0:
                return [Map(tuple(WorkerId(random.randrange(self.workers)) for _ in range(self.bins)))]
            case 1:
                return [Noop()]
            case 2:  # to be refused
                return [Move(BinId(self.bins), WorkerId(0))]
            case 3:  # to be refused as well
                return [Move(BinId(0), WorkerId(self.workers))]
        moved = random.sample(range(self.bins), random.randrange(1, min(self.bins, 4) + 1))
        return [Move(BinId(bin_id), WorkerId(random.randrange(self.workers))) for bin_id in moved]

    @property
    def counts(self) -> bool:
        """Whether its outputs are counts."""
        return self.kind not in ("unary", "binary")

    def owners_by_epoch(self) -> list[list[WorkerId]]:
        """The owner of each bin at each epoch, by the commands alone."""
        owners = [WorkerId(index % self.workers) for index in range(self.bins)]
        tables = []
        for epoch in range(self.epochs):
            for instructions in self.commands.get(epoch, []):
                for instruction in instructions:
                    match instruction:
                        case Map(mapped):
                            owners = list(mapped)
                        case Move(bin_id, worker) if bin_id < self.bins and worker < self.workers:
                            owners[bin_id] = worker
            tables.append(list(owners))
        return tables


def count(key: str, n: int, total: int) -> tuple[Any, list[tuple[str, int]]]:
    """Counts, and forgets a key whose count has reached a multiple of seven."""
    total += n
    return (DISCARD if total % 7 == 0 else total), [(key, total)]


def remember(port: int, time: int, rows: list[Row], bin: Bin) -> list[Any]:
    """Counts per key, and puts each record off by its value."""
    outputs: list[Any] = []
    for key, n in rows:
        bin.state[key] = bin.state.get(key, 0) + 1
        outputs.append(("seen", port, key))
        bin.put_off(time + n, key)
    return outputs


def recall(time: int, items: list[str], bin: Bin) -> list[Any]:
    """Tells the counts of keys whose time has come."""
    return [("due", key, bin.state[key]) for key in items]


def expected(shape: Shape, sent: list[Epochs]) -> dict[int, Counter[Any]]:
    """The outputs of each epoch, by a single thread."""
    if shape.counts:
        last = shape.kind in ("columns per epoch", "aggregates")
        return _expected_counts(sent[0], last=last, forgotten_at=10**9 if shape.kind == "aggregates" else 7)
    results: dict[int, Counter[Any]] = defaultdict(Counter)
    totals: Counter[str] = Counter()
    due: dict[int, list[str]] = defaultdict(list)
    for epoch in range(shape.epochs + 5):
        for port, epochs in enumerate(sent):
            for key, n in epochs[epoch] if epoch < shape.epochs else []:
                totals[key] += 1
                results[epoch]["seen", port, key] += 1
                due[epoch + n].append(key)
        for key in due.get(epoch, []):
            results[epoch]["due", key, totals[key]] += 1
    return results


def _expected_counts(epochs: Epochs, *, last: bool, forgotten_at: int) -> dict[int, Counter[Any]]:
    results: dict[int, Counter[Any]] = defaultdict(Counter)
    totals: dict[str, int] = {}
    for epoch, rows in enumerate(epochs):
        given: dict[str, int] = {}
        for key, _ in rows:
            total = given[key] = totals.get(key, 0) + 1
            totals[key] = 0 if total % forgotten_at == 0 else total
            results[epoch][key, total] += 1
        if last:
            results[epoch] = Counter(given.items())
    return results


def run_seed(seed: int, *, trace_moves: int = 0) -> int:
    """Raise unless everything holds; return how many bins were shipped."""
    random = Random(seed)
    shape = Shape.choose(random)
    cluster = SimulatedCluster(
        workers=shape.workers,
        seed=seed,
        congested_frames=random.choice((1, 4, 1_000_000)),
        pace=SimulatedPace.uneven(random, shape.workers),
        replay=f"python -m pytest tests/sim/test_bins.py --sim-seed {seed} --sim-trace 50",
        trace_moves=trace_moves,
    )
    ports = 2 if shape.kind == "binary" else 1
    sent: list[Epochs] = [[[] for _ in range(shape.epochs)] for _ in range(ports)]
    got: dict[int, Counter[Any]] = defaultdict(Counter)
    at: dict[tuple[int, BinId], set[int]] = defaultdict(set)
    shipped: Counter[tuple[int, int, BinId]] = Counter()

    def report(outcome: ControlReport) -> None:
        if isinstance(outcome, Installation):
            shipped.update((outcome.time, outcome.sequence, ship.bin_id) for ship in outcome.ships)

    def program(worker: Worker) -> Iterator[None]:
        dice = Random(f"{seed}/{worker.index}")
        inputs, control = [Input[Row](f"input {port}") for port in range(ports)], ControlInput()

        def keep(time: int, row: Any) -> None:
            got[time][row] += 1
            key = row[0] if shape.counts else (row[2] if row[0] == "seen" else row[1])
            at[time, Bins(shape.bins).of(key)].add(worker.index)

        with worker.dataflow() as scope:
            streams = [input.stream(scope) for input in inputs]
            options = BinOptions(
                shape.bins,
                shape.stores[worker.index],
                report,
                shape.chunk_bytes_max,
                shape.in_flight_bytes_max,
            )
            commands = control.stream(scope).broadcast()
            if shape.kind == "aggregates":
                results = aggregate_columns(streams[0], commands, options)
            elif shape.kind.startswith("columns"):
                emit: Literal["record", "epoch"] = "epoch" if shape.kind == "columns per epoch" else "record"
                results = count_columns(count, emit, streams[0], commands, options)
            else:
                placed = OnBins(commands.outlet, options)
                keyed = [(stream.outlet, RowKey(_key)) for stream in streams]
                results = Stream[Any](placed.place(keyed, _logic(shape.kind, options), "bins"))
            results.inspect_time(keep)
        yield
        for epoch in range(shape.epochs):
            if worker.index == 0:
                for instructions in shape.commands.get(epoch, []):
                    control.send(*instructions)
                    if dice.random() < 0.5:
                        control.flush()
                        yield
            for port, input in enumerate(inputs):
                for _ in range(dice.choice((0, 1, 3, 6))):
                    row = (f"key {dice.randrange(12)}", dice.randrange(3))
                    if shape.counts:
                        row = (row[0], 1)
                    # Some batches of a few keys are combined before they are sent, or have their keys in dictionaries.
                    for _ in range(dice.choice((1, 10)) if shape.kind in ("aggregates", "columns") else 1):
                        sent[port][epoch].append(row)
                        input.send(row)
            yield from _advance([control.advance_to, *(input.advance_to for input in inputs)], epoch + 1, dice)

    with Invariants(cluster), small_regions():
        cluster.run(program)
    wanted = {epoch: counter for epoch, counter in expected(shape, sent).items() if counter}
    assert got == wanted, f"seed {seed}, {shape}"
    owners = shape.owners_by_epoch()
    for (epoch, bin_id), workers in at.items():
        owner = owners[min(epoch, shape.epochs - 1)][bin_id]
        assert workers == {owner}, f"seed {seed}: bin {bin_id} at {epoch} was on {workers} and belongs to {owner}"
    assert not shipped or max(shipped.values()) == 1, f"seed {seed}: a bin was shipped by two workers: {shipped}"
    return len(shipped)


def _advance(advances: list[Callable[[int], None]], epoch: int, dice: Random) -> Iterator[None]:
    """Advance the inputs in any order, with the cluster going on in between."""
    dice.shuffle(advances)
    for advance in advances:
        advance(epoch)
        if dice.random() < 0.5:
            yield
    yield


def _key(row: Row) -> str:
    return row[0]


def _logic(kind: str, options: BinOptions) -> StateLogic:
    if kind == "machine":
        return StateMachine(count, lambda: 0, KeyValue(None, None, "bins"), options, "bins")
    return BinnedLogic(remember, recall, keys=[_key, _key], initial=dict, bins=Bins(options.bins), name="bins")


def aggregate_columns(rows: Stream[Row], commands: Stream[Control], options: BinOptions) -> Stream[Any]:
    """Count keys as columns, with an aggregate."""
    columns = rows.to_columns({"key": str, "n": int})
    with small_dictionaries():
        counts = columns.stateful_aggregate(
            {"count": agg.sum("n")}, key="key", control=commands, bins=options, name="bins"
        )
    return counts.to_rows()


def count_columns(
    fold: Any,
    emit: Literal["record", "epoch"],
    rows: Stream[Row],
    commands: Stream[Control],
    options: BinOptions,
) -> Stream[Any]:
    """Count keys as columns, with a fold that is compiled."""
    columns = rows.to_columns({"key": str, "n": int})
    with small_dictionaries():
        counts = columns.stateful_state_machine(
            fold,
            key="key",
            value="n",
            state={"total": int},
            initial=0,
            output={"key": str, "total": int},
            emit=emit,
            control=commands,
            bins=options,
            name="bins",
        )
    return counts.to_rows()
