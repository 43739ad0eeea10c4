"""Counts the words of a text on several workers, moves their counts about while it does, and checks every count.

    python examples/wordcount.py -n 2                 # 20 readings of Alice in Wonderland, two processes
    python examples/wordcount.py -n 2 -w 2 book.txt   # a text of yours, four workers

Each worker reads its share of every epoch's lines. A word's count lives in the bin that the word's hash names, and the
bin on a worker: at every tenth epoch bins change hands, and once all of them do. Meanwhile the same words are counted
without bins, and the two are compared, epoch by epoch, within the dataflow.

Started one by one, processes can be joined by others while they run:

    python examples/wordcount.py -n2 -w1 -p0                        # in one terminal
    python examples/wordcount.py -n2 -w1 -p1                        # in another
    python examples/wordcount.py -n2 -w1 -p2 --join 0 --nn 3        # later, in a third

The third reads no lines. It receives its share of the bins, and gives it back before it leaves, on SIGTERM. The first
two stay: the counts without bins are theirs.
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

from hailer import BinOptions, ControlInput, Input, Probe, Steward, Worker, add_flags, execute_from_args, to_stream
from operators.commands import BinId, Configuration, ControlReport, Members, Move, WorkerId

ALICE = Path(__file__).parent / "data" / "alice.txt"
BINS = 64
EPOCHS_AHEAD_MAX = 4


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


def main(worker: Worker, text: Text) -> None:
    lines, control, probe, totals, moved = Input[str]("lines"), ControlInput(), Probe(), dict[str, int](), Moved(worker)
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
    if worker.bootstrap():
        if worker.stay():
            return
    else:
        feed(worker, text, lines, control, probe)
    seconds = time.monotonic() - started_s

    with worker.dataflow("gather") as scope:
        gathered = to_stream(scope, totals.items()).exchange(lambda _: 0).extract()
    worker.complete()
    show_progress(worker, "checking every count")
    if worker.index == 0:
        final: dict[str, int] = {}
        keep(final, gathered.rows())
        check(final, text, seconds, moved)


def feed(worker: Worker, text: Text, lines: Input[str], control: ControlInput, probe: Probe) -> None:
    """Send this worker's share of the lines; the first worker also commands the bins, and looks after joiners."""
    readers = worker.peers
    steward = Steward(worker, control) if worker.index == 0 else None
    for epoch, rows in enumerate(text.epochs()):
        lines.send_batch(rows[worker.index :: readers])
        lines.advance_to(epoch + 1)
        if steward is None:
            control.advance_to(epoch + 1)
            worker.step_while(lambda: probe.less_than(lines.time - EPOCHS_AHEAD_MAX))
        else:
            if not steward.busy:
                command(control, epoch, worker.members.workers)
            steward.advance_to(epoch + 1)
            steward.step_while(lambda: probe.less_than(lines.time - EPOCHS_AHEAD_MAX))
        show_progress(worker, f"{probe.frontier()[0]} epochs are complete on all workers, {epoch + 1} are sent")
    lines.close()
    if steward is not None:
        steward.see_off()
    worker.complete()


def command(control: ControlInput, epoch: int, workers: tuple[WorkerId, ...]) -> None:
    """Say who owns which bins from `epoch` on: now and then a few change hands, and once all of them."""
    if epoch == 25:
        control.map([workers[(bin_id + 1) % len(workers)] for bin_id in range(BINS)])
    elif epoch % 10 == 5:
        control.send(*(Move(BinId((epoch + n) % BINS), workers[(epoch // 10 + n) % len(workers)]) for n in range(8)))


class Moved:
    """How many bins changed hands, and how many workers there were at most."""

    def __init__(self, worker: Worker) -> None:
        self.bins = 0
        self.workers = worker.peers
        worker.membership.on_changed.append(self.members_changed)

    def note(self, outcome: ControlReport) -> None:
        if isinstance(outcome, Configuration):
            self.bins += len(outcome.moves)

    def members_changed(self, members: Members) -> None:
        self.workers = max(self.workers, len(members))


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


def check(totals: dict[str, int], text: Text, seconds: float, moved: Moved) -> None:
    """Print what was counted, and raise if a plain loop over the same text counts otherwise."""
    expected = Counter(word for line in text.lines() for word in words(line))
    differences = {word for word in totals.keys() | expected.keys() if totals.get(word) != expected.get(word)}
    total = sum(totals.values())
    if sys.stdout.isatty():
        print("\r\x1b[K", end="")
    print(f"text             {text.path.name}, {text.rounds} time{'s' * (text.rounds != 1)}")
    print(f"workers          {moved.workers:>12,}")
    print(f"epochs           {sum(1 for _ in text.epochs()):>12,}")
    print(f"words            {total:>12,}")
    print(f"distinct words   {len(totals):>12,}")
    print(f"bins moved       {moved.bins:>12,}")
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
