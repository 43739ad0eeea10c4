"""Runs NEXMark queries on bins, moves the bins in the middle of the run, and compares every epoch with the oracle.

    python -m examples.nexmark.run -n 2                               # all queries, two processes
    python -m examples.nexmark.run -n 2 --query q5 --events 200000    # one of them, longer
    python -m examples.nexmark.run -n 2 --columns                     # those that there are on columns

Each worker makes its slice of the stream beforehand; the seconds are those from the first event sent to the last answer
received. Worker 0 sends the commands. After the run it gathers all answers, compares them, and prints a line per query.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

from examples.nexmark import columns, oracle
from examples.nexmark.events import Auction, Bid, Event, Person
from examples.nexmark.generator import Generator
from examples.nexmark.queries import QUERIES, House, Keep
from examples.nexmark.semantics import Settings
from hailer import (
    BinOptions,
    ColumnInput,
    Columns,
    ControlInput,
    Extracted,
    Input,
    Probe,
    Scope,
    Stream,
    Time,
    Worker,
    add_flags,
    execute_from_args,
    to_stream,
)
from operators.commands import BinId, ControlReport, Installation, Instruction, Map, Move, WorkerId

EPOCHS_AHEAD_MAX = 2

COLUMNS = "{:<5} {:>10} {:>9} {:>7} {:>6} {:>9} {:>9} {:>11}"


@dataclass(frozen=True, slots=True)
class Run:
    """What to run."""

    queries: list[str]
    events: int
    generator: Generator
    settings: Settings
    bins: int
    on_columns: bool


@dataclass(slots=True)
class Moved:
    """How many bins have left this worker, of all operators of a query."""

    bins: int = 0

    def report(self, what: ControlReport) -> None:
        """Hear what became of a command."""
        if isinstance(what, Installation):
            self.bins += len(what.ships)


def main(worker: Worker, run: Run) -> None:
    epoch_ms = run.settings.epoch_ms
    epochs = list(run.generator.epochs(run.events, epoch_ms=epoch_ms, worker=worker.index, peers=worker.peers))
    everything = run.generator.events(0, run.events) if worker.index == 0 else []
    differences = 0
    if worker.index == 0:
        print(COLUMNS.format("query", "events", "rows", "epochs", "moved", "seconds", "events/s", "differences"))
    for query in run.queries:
        answers, moved, seconds = answer(worker, query, epochs, run)
        rows, bins = gather(worker, answers, moved)
        if worker.index == 0:
            found = differing(rows, getattr(oracle, query)(everything, run.settings))
            differences += found
            rate = f"{run.events / seconds:,.0f}"
            total, given = f"{run.events:,}", f"{len(rows):,}"
            line = COLUMNS.format(query, total, given, len(epochs), bins, f"{seconds:.2f}", rate, found)
            print(line, flush=True)
    if differences:
        raise AnswersDiffer(f"{differences} rows differ from the oracle's, those missing and those too many")


def answer(worker: Worker, query: str, epochs: list[list[Event]], run: Run) -> tuple[Extracted[Any], Moved, float]:
    """Run a query; return this worker's answers, how many bins left it, and the seconds it took."""
    feed, control, probe, moved = Feed(epochs, on_columns=run.on_columns), ControlInput(), Probe(), Moved()
    with worker.dataflow(query) as scope:
        keep = Keep(control.stream(scope).broadcast(), BinOptions(run.bins, report=moved.report))
        answers = feed.answers(query, scope, keep, run.settings).probe(probe).extract()

    commands = migrations(len(epochs), run.bins, worker.peers) if worker.index == 0 else {}
    started_s = time.monotonic()
    for epoch in range(len(epochs)):
        if epoch in commands:
            control.send(*commands[epoch])
        control.advance_to(epoch + 1)
        feed.send(epoch)
        worker.step_while(lambda: probe.less_than(feed.people.time - EPOCHS_AHEAD_MAX))
    worker.complete()
    return answers, moved, time.monotonic() - started_s


class Feed:
    """Events, epoch by epoch, by kind; bids as rows, or as columns that are made beforehand."""

    def __init__(self, epochs: list[list[Event]], *, on_columns: bool) -> None:
        self.people, self._auctions = Input[Person]("people"), Input[Auction]("auctions")
        self._bids = ColumnInput(columns.BID, "bids") if on_columns else Input[Bid]("bids")
        self._epochs = epochs
        self._batches = [columns.bids_of(events) for events in epochs] if on_columns else []

    def answers(self, query: str, scope: Scope, keep: Keep, settings: Settings) -> Stream[Any] | Columns:
        """The answers to a query about what is sent."""
        people, auctions = self.people.stream(scope), self._auctions.stream(scope)
        if isinstance(self._bids, ColumnInput):
            house = columns.ColumnsHouse(people, auctions, self._bids.stream(scope))
            return columns.QUERIES[query](house, keep, settings)
        return QUERIES[query](House(people, auctions, self._bids.stream(scope)), keep, settings)

    def send(self, epoch: int) -> None:
        """Send all of an epoch, which is complete then."""
        events = self._epochs[epoch]
        self.people.send_batch([event for event in events if isinstance(event, Person)])
        self._auctions.send_batch([event for event in events if isinstance(event, Auction)])
        if isinstance(self._bids, ColumnInput):
            self._bids.send(self._batches[epoch])
        else:
            self._bids.send_batch([event for event in events if isinstance(event, Bid)])
        for input in (self.people, self._auctions, self._bids):
            input.advance_to(epoch + 1)


def migrations(epochs: int, bins: int, workers: int) -> dict[int, list[Instruction]]:
    """Which commands to send at which epoch: some bins, all of them, to one worker, and back to where they were."""
    turned = Map(tuple(WorkerId((bin_id + 1) % workers) for bin_id in range(bins)))
    home = Map(tuple(WorkerId(bin_id % workers) for bin_id in range(bins)))
    return {
        epochs * 1 // 6: [Move(BinId(bin_id), WorkerId(0)) for bin_id in range(0, bins, 3)],
        epochs * 2 // 6: [turned],
        epochs * 3 // 6: [Map((WorkerId(workers - 1),) * bins)],
        epochs * 4 // 6: [home],
        epochs * 5 // 6: [Move(BinId(bin_id), WorkerId((bin_id + 1) % workers)) for bin_id in range(0, bins, 2)],
    }


def gather(worker: Worker, answers: Extracted[Any], moved: Moved) -> tuple[Counter[tuple[Time, Any]], int]:
    """Bring all answers, each with its epoch, and the number of moved bins to worker 0."""
    mine = [(epoch, row) for epoch, rows in answers.by_time().items() for row in rows]
    with worker.dataflow("gather") as scope:
        rows = to_stream(scope, mine).exchange(lambda _: 0).extract()
        bins = to_stream(scope, [moved.bins]).exchange(lambda _: 0).extract()
    worker.complete()
    return Counter(rows.rows()), sum(bins.rows())


def differing(rows: Counter[tuple[Time, Any]], expected: dict[int, list[Any]]) -> int:
    """How many rows are missing or too many, in whatever epoch."""
    wanted: Counter[tuple[Time, Any]] = Counter((epoch, row) for epoch, some in expected.items() for row in some)
    return (wanted - rows).total() + (rows - wanted).total()


class AnswersDiffer(Exception):
    """The dataflow and the oracle disagree."""


def read_arguments() -> Run:
    parser = argparse.ArgumentParser(description="Run NEXMark queries while bins move, and check every epoch.")
    parser.add_argument("--columns", action="store_true", help=f"on columns: {', '.join(columns.QUERIES)}")
    parser.add_argument("--query", choices=[*QUERIES, "all"], default="all", help="which one (all)")
    parser.add_argument("--events", type=int, default=20_000, metavar="N", help="how many events (20000)")
    parser.add_argument("--rate", type=int, default=1000, metavar="N", help="events per second of event time (1000)")
    parser.add_argument("--epoch-ms", type=int, default=250, metavar="MS", help="event time per epoch (250)")
    parser.add_argument("--bins", type=int, default=256, metavar="N", help="bins per operator, a power of two (256)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another seed, another stream (1)")
    add_flags(parser)
    flags = parser.parse_args()
    if min(flags.events, flags.rate, flags.epoch_ms) < 1:
        parser.error("--events, --rate and --epoch-ms are at least 1")
    there = columns.QUERIES if flags.columns else QUERIES
    if flags.query != "all" and flags.query not in there:
        parser.error(f"{flags.query} is not on columns; {', '.join(there)} are")
    return Run(
        queries=list(there) if flags.query == "all" else [flags.query],
        events=flags.events,
        generator=Generator(seed=flags.seed, events_per_s=flags.rate),
        settings=Settings(epoch_ms=flags.epoch_ms),
        bins=flags.bins,
        on_columns=flags.columns,
    )


if __name__ == "__main__":
    execute_from_args(partial(main, run=read_arguments()))
