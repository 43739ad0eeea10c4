"""Counts the words of a text on several workers, and checks every count.

    python examples/wordcount.py -n 2                 # 100 readings of Alice in Wonderland, two processes
    python examples/wordcount.py -n 2 -w 2 book.txt   # a text of yours, four workers

Each worker reads its share of every epoch's lines; a word's count lives on the worker that the word's hash names.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from framework.launch.config import add_flags
from operators import Input, Probe, Worker, execute_from_args, to_stream

ALICE = Path(__file__).parent / "data" / "alice.txt"
EPOCHS_AHEAD_MAX = 4


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


def main(worker: Worker, text: Text) -> None:
    lines, probe, totals = Input[str]("lines"), Probe(), dict[str, int]()
    with worker.dataflow("wordcount") as scope:
        (
            lines.stream(scope)
            .flat_map(words)
            .map(lambda word: (word, 1))
            .state_machine(count, initial=0)
            .inspect_batch(lambda _, rows: totals.update(rows))
            .probe(probe)
        )

    started_s = time.monotonic()
    for epoch, rows in enumerate(text.epochs()):
        lines.send_batch(rows[worker.index :: worker.peers])
        lines.advance_to(epoch + 1)
        worker.step_while(lambda: probe.less_than(lines.time - EPOCHS_AHEAD_MAX))
        show_progress(worker, f"{probe.frontier()[0]} epochs are complete on all workers, {epoch + 1} are sent")
    epochs = lines.time
    worker.complete()
    seconds = time.monotonic() - started_s

    with worker.dataflow("gather") as scope:
        gathered = to_stream(scope, totals.items()).exchange(lambda _: 0).extract()
    worker.complete()
    show_progress(worker, "checking every count")
    if worker.index == 0:
        check(dict(gathered.rows()), text, epochs, seconds, worker.peers)


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


def check(totals: dict[str, int], text: Text, epochs: int, seconds: float, workers: int) -> None:
    """Print what was counted, and raise if a plain loop over the same text counts otherwise."""
    expected = Counter(word for line in text.lines() for word in words(line))
    differences = {word for word in totals.keys() | expected.keys() if totals.get(word) != expected.get(word)}
    total = sum(totals.values())
    if sys.stdout.isatty():
        print("\r\x1b[K", end="")
    print(f"text             {text.path.name}, {text.rounds} time{'s' * (text.rounds != 1)}")
    print(f"workers          {workers:>12,}")
    print(f"epochs           {epochs:>12,}")
    print(f"words            {total:>12,}")
    print(f"distinct words   {len(totals):>12,}")
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
        "--rounds", type=int, metavar="N", help="how often to read it (a file of yours once, Alice 100 times)"
    )
    parser.add_argument("--epoch-lines", type=int, default=1000, metavar="N", help="lines per epoch (1000)")
    add_flags(parser)
    flags = parser.parse_args()
    rounds = flags.rounds if flags.rounds is not None else (100 if flags.file == ALICE else 1)
    if not flags.file.is_file():
        parser.error(f"there is no file {flags.file}")
    if rounds < 1 or flags.epoch_lines < 1:
        parser.error("--rounds and --epoch-lines are at least 1")
    return Text(flags.file, rounds, flags.epoch_lines)


if __name__ == "__main__":
    execute_from_args(partial(main, text=read_arguments()))
