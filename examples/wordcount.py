"""Counts the words of a text on several workers, moves their counts about while it does, and checks every count.

    python examples/wordcount.py -n 2                 # 20 readings of Alice in Wonderland, two processes
    python examples/wordcount.py -n 2 -w 2 book.txt   # a text of yours, four workers

Each worker reads its share of every epoch's lines. A word's count lives in the bin that the word's hash names, and the
bin on a worker: at every tenth epoch bins change hands, and once all of them do. Meanwhile the same words are counted
without bins, and the two are compared, epoch by epoch, within the dataflow.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from framework.launch.config import add_flags
from framework.membership import WorkerId
from operators import BinOptions, ControlInput, Input, Probe, Worker, execute_from_args, to_stream
from routing.bins import BinId
from routing.commands import Move
from routing.forwarder import Report
from routing.router import Installation

ALICE = Path(__file__).parent / "data" / "alice.txt"
BINS = 64
EPOCHS_AHEAD_MAX = 4


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


def main(worker: Worker, text: Text) -> None:
    lines, control, probe, totals, moved = Input[str]("lines"), ControlInput(), Probe(), dict[str, int](), Moved()
    with worker.dataflow("wordcount") as scope:
        pairs = lines.stream(scope).flat_map(words).map(lambda word: (word, 1))
        counts = pairs.stateful_state_machine(
            count, initial=0, control=control.stream(scope).broadcast(), bins=BinOptions(BINS, report=moved.note)
        )
        (
            counts.verify(pairs.state_machine(count, initial=0))
            .inspect_batch(lambda _, rows: keep(totals, rows))
            .probe(probe)
        )

    started_s = time.monotonic()
    for epoch, rows in enumerate(text.epochs()):
        if worker.index == 0:
            command(control, epoch, worker.peers)
        lines.send_batch(rows[worker.index :: worker.peers])
        lines.advance_to(epoch + 1)
        control.advance_to(epoch + 1)
        worker.step_while(lambda: probe.less_than(lines.time - EPOCHS_AHEAD_MAX))
        show_progress(worker, f"{probe.frontier()[0]} epochs are complete on all workers, {epoch + 1} are sent")
    epochs = lines.time
    worker.complete()
    seconds = time.monotonic() - started_s

    with worker.dataflow("gather") as scope:
        gathered = to_stream(scope, totals.items()).exchange(lambda _: 0).extract()
        moves = to_stream(scope, [moved.bins]).exchange(lambda _: 0).extract()
    worker.complete()
    show_progress(worker, "checking every count")
    if worker.index == 0:
        final: dict[str, int] = {}
        keep(final, gathered.rows())
        check(final, text, epochs, seconds, Moves(worker.peers, sum(moves.rows())))


def command(control: ControlInput, epoch: int, workers: int) -> None:
    """Say who owns which bins from `epoch` on: now and then a few change hands, and once all of them."""
    if epoch == 25:
        control.map([(bin_id + 1) % workers for bin_id in range(BINS)])
    elif epoch % 10 == 5:
        control.send(*(Move(BinId((epoch + n) % BINS), WorkerId((epoch // 10 + n) % workers)) for n in range(8)))


class Moved:
    """How many bins left this worker."""

    def __init__(self) -> None:
        self.bins = 0

    def note(self, outcome: Report) -> None:
        if isinstance(outcome, Installation):
            self.bins += len(outcome.ships)


def keep(totals: dict[str, int], rows: Iterable[tuple[str, int]]) -> None:
    """Keep the highest count of each word: once its bin has moved, another worker counts on."""
    for word, total in rows:
        totals[word] = max(total, totals.get(word, 0))


WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")


def words(line: str) -> list[str]:
    return WORD.findall(line.lower())


class Text:
    """The lines of a file, read `rounds` times over and cut into epochs."""

    def __init__(self, path: Path, rounds: int, epoch_lines: int) -> None:
        self.path = path
        self.rounds = rounds
        self._epoch_lines = epoch_lines

    def lines(self) -> Iterator[str]:
        for _ in range(self.rounds):
            with self.path.open(encoding="utf-8", errors="replace") as file:
                yield from file

    def epochs(self) -> Iterator[list[str]]:
        lines = self.lines()
        while rows := list(islice(lines, self._epoch_lines)):
            yield rows


def show_progress(worker: Worker, text: str) -> None:
    if worker.index == 0 and sys.stdout.isatty():
        print(f"\r\x1b[K{text}", end="", flush=True)


class Moves(NamedTuple):
    """Between how many workers how many bins moved."""

    workers: int
    bins: int


def check(totals: dict[str, int], text: Text, epochs: int, seconds: float, moves: Moves) -> None:
    """Print what was counted, and raise if a plain loop over the same text counts otherwise."""
    expected = Counter(word for line in text.lines() for word in words(line))
    differences = {word for word in totals.keys() | expected.keys() if totals.get(word) != expected.get(word)}
    total = sum(totals.values())
    if sys.stdout.isatty():
        print("\r\x1b[K", end="")
    print(f"text             {text.path.name}, {text.rounds} time{'s' * (text.rounds != 1)}")
    print(f"workers          {moves.workers:>12,}")
    print(f"epochs           {epochs:>12,}")
    print(f"words            {total:>12,}")
    print(f"distinct words   {len(totals):>12,}")
    print(f"bins moved       {moves.bins:>12,}")
    print(f"seconds          {seconds:>12.1f}")
    print(f"words/s          {total / seconds:>12,.0f}")
    print(f"differences      {len(differences):>12,}   (against a plain collections.Counter)")
    top = sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:8]
    print(f"top words        {'  '.join(f'{word} {n:,}' for word, n in top)}", flush=True)
    if differences:
        word = min(differences)
        raise CountsDiffer(
            f"{len(differences)} counts differ, such as that of {word!r}: {totals.get(word)}, not {expected.get(word)}"
        )


class CountsDiffer(Exception):
    """The dataflow and the plain loop disagree."""


def read_arguments() -> Text:
    parser = argparse.ArgumentParser(description="Count the words of a text on several workers, and check every count.")
    parser.add_argument("file", type=Path, nargs="?", default=ALICE, help="a text in UTF-8 (Alice in Wonderland)")
    parser.add_argument(
        "--rounds", type=int, metavar="N", help="how often to read it (a file of yours once, Alice 20 times)"
    )
    parser.add_argument("--epoch-lines", type=int, default=1000, metavar="N", help="lines per epoch (1000)")
    add_flags(parser)
    flags = parser.parse_args()
    rounds = flags.rounds if flags.rounds is not None else (20 if flags.file == ALICE else 1)
    if not flags.file.is_file():
        parser.error(f"there is no file {flags.file}")
    if rounds < 1 or flags.epoch_lines < 1:
        parser.error("--rounds and --epoch-lines are at least 1")
    return Text(flags.file, rounds, flags.epoch_lines)


if __name__ == "__main__":
    execute_from_args(partial(main, text=read_arguments()))
