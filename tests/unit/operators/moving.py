"""A keyed operator twice in one dataflow, on bins that move all the time and fixed by hash, on a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from framework.simulation.cluster import SimulatedCluster, SimulatedPace
from framework.simulation.invariants import Invariants
from framework.worker.worker import Worker
from operators import BinOptions, ControlInput, Input, Stream
from routing.bins import BinId, Bins
from routing.commands import Control
from routing.routing_table import Installation
from routing.state.memory import MemoryStore

Rows = list[Any]
Feed = list[list[Rows]]
"""Per input and epoch, the records that all workers together send."""
Outcome = dict[int, Rows]
"""Per epoch the outputs of all workers, sorted."""


class WatchedStore(MemoryStore):
    """A store that remembers how many keys it had when it was closed."""

    keys_left = -1

    def close(self) -> None:
        assert self.keys_left == -1, "closed twice"
        self.keys_left = sum(self.bins().values())
        super().close()


@dataclass(slots=True)
class Moved:
    """What came out, and what had happened by then."""

    on_bins: Outcome = field(default_factory=dict)
    by_hash: Outcome = field(default_factory=dict)
    bins_shipped: int = 0
    stores: list[WatchedStore] = field(default_factory=list)

    def keys_left(self) -> int:
        """How many keys have a state in the end."""
        return sum(store.keys_left for store in self.stores)


Build = Callable[[list[Stream[Any]], dict[str, Any]], list[Stream[Any]]]
"""Puts the operator under test on the inputs, with options for where it is; returns the streams to compare."""


def run_moving(build: Build, feed: Feed, *, seed: int, columns: bool = False) -> Moved:
    """Run the operator on random workers, with random moves, all invariants of progress checked after every move."""
    random = Random(seed)
    workers, bins = random.choice([1, 2, 3, 4]), random.choice([1, 2, 8, 16])
    epochs = len(feed[0])
    shares = [[_shares(random, rows, workers) for rows in by_epoch] for by_epoch in feed]
    moved = Moved()

    def store(of: Bins) -> WatchedStore:
        moved.stores.append(random.choice([WatchedStore, _OneByOne])(of))
        return moved.stores[-1]

    def report(told: object) -> None:
        if isinstance(told, Installation):
            moved.bins_shipped += len(told.ships)

    def program(worker: Worker) -> Iterator[None]:
        dice = Random(f"{seed} {worker.index}")
        inputs, control = [Input[Any](f"input {port}") for port in range(len(feed))], ControlInput()
        with worker.dataflow() as scope:
            streams = [input.stream(scope) for input in inputs]
            commands: Stream[Control] = control.stream(scope).broadcast()
            on_bins = {"control": commands, "bins": BinOptions(bins, MemoryStore if columns else store, report)}
            fixed = {"bins": BinOptions(store=MemoryStore if columns else store)}
            for options, outcome in ((on_bins, moved.on_bins), (fixed, moved.by_hash)):
                for part, output in enumerate(build(streams, options)):
                    output.inspect_time(partial(_keep, outcome, part))
        yield
        for epoch in range(epochs):
            if worker.index == 0:
                _command(dice, control, bins, workers)
            for port, input in enumerate(inputs):
                input.send_batch(shares[port][epoch][worker.index])
            yield
            ends: list[Input[Any] | ControlInput] = [*inputs, control]
            for end in dice.sample(ends, len(ends)):
                end.advance_to(epoch + 1)
                if dice.random() < 0.3:
                    yield
        yield

    cluster = SimulatedCluster(workers=workers, seed=seed, pace=SimulatedPace.uneven(random, workers))
    with Invariants(cluster):
        cluster.run(program)
    for outcome in (moved.on_bins, moved.by_hash):
        for time, rows in outcome.items():
            outcome[time] = sorted(rows, key=repr)
    return moved


def by_epoch(*parts: Iterator[tuple[int, Any]] | list[tuple[int, Any]]) -> Outcome:
    """What a reference gives for each output stream, as (epoch, record) in any order, in the form of an outcome."""
    outcome: Outcome = {}
    for part, rows in enumerate(parts):
        for time, row in rows:
            outcome.setdefault(time, []).append((part, row))
    return {time: sorted(rows, key=repr) for time, rows in outcome.items()}


def _keep(outcome: Outcome, part: int, time: Any, row: Any) -> None:
    outcome.setdefault(time, []).append((part, row))


class _OneByOne(WatchedStore):
    """A store whose bins travel key by key."""

    def extract(self, bin_id: BinId, chunk_bytes_max: int) -> Iterator[bytes]:
        return super().extract(bin_id, 1)


def _shares(random: Random, rows: Rows, workers: int) -> list[Rows]:
    """The rows in random order, in shares for the workers."""
    shares: list[Rows] = [[] for _ in range(workers)]
    for row in random.sample(rows, len(rows)):
        random.choice(shares).append(row)
    return shares


def _command(random: Random, control: ControlInput, bins: int, workers: int) -> None:
    """Some moves, perhaps a new map, and now and then a command that is refused."""
    for _ in range(random.choice([0, 0, 1, 2])):
        match random.choice(["move", "move", "map", "bad"]):
            case "move":
                control.move(random.randrange(bins), random.randrange(workers))
            case "map":
                control.map([random.randrange(workers) for _ in range(bins)])
            case "bad":
                control.move(bins, workers)
