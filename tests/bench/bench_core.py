"""What the core costs: rows against a bare loop, a round trip, progress traffic, progress state."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random

from framework.launch.execute import example
from operators import to_stream
from tests.bench.harness import Bar, Progress, bench, ratios
from tests.bench.programs import run_program

LINES, WORDS = 4_000, 100
REPEATS = 7


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


@bench("rows-wordcount")
def rows_wordcount(progress: Progress) -> Iterator[Bar]:
    """Rows WordCount with a Python fold on one worker, against the same splitting, dictionary and list in a loop."""
    for vocabulary in (1_000, 1_000_000):
        random = Random(1)
        lines = [" ".join(f"w{random.randrange(vocabulary):09}" for _ in range(WORDS)) for _ in range(LINES)]
        figures = ratios(partial(_dataflow, lines), partial(_bare_loop, lines), repeats=REPEATS, progress=progress)
        yield Bar.of(f"rows WordCount, {vocabulary:,} keys / bare Python loop", figures, ">=", 1 / 3)


def _bare_loop(lines: list[str]) -> int:
    totals: dict[str, int] = {}
    outputs: list[tuple[str, int]] = []
    for line in lines:
        for word in line.split():
            total = totals.get(word, 0) + 1
            totals[word] = total
            outputs.append((word, total))
    return len(outputs)


def _dataflow(lines: list[str]) -> int:
    outputs: list[tuple[str, int]] = []
    example(
        lambda scope: (
            to_stream(scope, lines)
            .flat_map(str.split)
            .map(lambda word: (word, 1))
            .state_machine(count, initial=0)
            .inspect_batch(lambda _, rows: outputs.extend(rows))
        )
    )
    return len(outputs)


@bench("round-trip")
def round_trip(progress: Progress) -> Iterator[Bar]:
    """A one-record epoch from one process to another and back, parked in between."""
    medians, tails = [], []
    for repeat in range(3):
        progress(f"repeat {repeat + 1} of 3")
        (p50, p99), *_ = run_program("round_trip.py", "-n2")
        medians.append(p50 / 1000)
        tails.append(p99 / 1000)
    yield Bar.of("one-record epoch through two processes and back, p50", medians, "<=", 2.0, unit="ms")
    yield Bar.of("one-record epoch through two processes and back, p99", tails, "<=", 5.0, unit="ms")


@bench("progress-traffic")
def progress_traffic(progress: Progress) -> Iterator[Bar]:
    """Bytes of progress against bytes of data, WordCount in 8 processes, 200 words per epoch and worker."""
    figures = []
    for repeat in range(3):
        progress(f"repeat {repeat + 1} of 3")
        totals = [sum(column) for column in zip(*run_program("traffic.py", "-n8"), strict=True)]
        figures.append(totals[1] / totals[0])
    yield Bar.of("progress bytes / data bytes, WordCount, 8 workers", figures, "<=", 1.0)


@bench("progress-state")
def progress_state(progress: Progress) -> Iterator[Bar]:
    """Entries of the accumulated progress state after 10^5 epochs against after 10^2, two workers."""
    progress("100,000 epochs on two workers")
    (early, late), *_ = run_program("progress_state.py", "-w2", "100000")
    yield Bar("progress state, 10^5 epochs / 10^2 epochs", late / early, 1.0, "<=", note=f"{late:g} entries")


@bench("eight-processes")
def eight_processes(progress: Progress) -> Iterator[Bar]:
    """Eight processes on one machine: start, run a dataflow and stop, 50 times in a row."""
    clean = 0
    for turn in range(50):
        progress(f"turn {turn + 1} of 50")
        clean += len(run_program("eight.py", "-n8")) == 8
    yield Bar("clean runs of eight processes, of 50", clean, 50, ">=", unit="")
