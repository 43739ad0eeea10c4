"""What bins cost while nothing moves, and what is felt when they do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from statistics import median
from typing import Any

from operators import Input, Probe, Worker, empty, execute
from tests.bench.harness import Bar, Progress, bench, ratios
from tests.bench.programs import run_program

EPOCHS, WORDS = 100, 4_000
REPEATS = 15
MIGRATIONS = 9


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


def _run(epochs: list[list[tuple[str, int]]], bins: int | None) -> None:
    """Count words on one worker, an epoch at a time; without bins, keys are fixed by hash."""

    def main(worker: Worker) -> None:
        words, probe = Input[Any](), Probe()
        with worker.dataflow() as scope:
            stream = words.stream(scope)
            if bins is None:
                counts = stream.state_machine(count, initial=0)
            else:
                counts = stream.stateful_state_machine(count, initial=0, control=empty(scope), bins=bins)
            counts.probe(probe)
        for number, rows in enumerate(epochs):
            words.send_batch(rows)
            words.advance_to(number + 1)
            worker.step_while(partial(probe.less_than, number + 1))

    execute(main)


@bench("bins-overhead")
def bins_overhead(progress: Progress) -> Iterator[Bar]:
    """Rows WordCount on one worker: bins against keys fixed by hash, and many bins against few."""
    random = Random(1)
    epochs = [[(f"w{random.randrange(10_000)}", 1) for _ in range(WORDS)] for _ in range(EPOCHS)]

    def against(bins: int, other: int | None) -> list[float]:
        return ratios(partial(_run, epochs, bins), partial(_run, epochs, other), repeats=REPEATS, progress=progress)

    yield Bar.of("256 bins / fixed by hash, throughput", against(256, None), ">=", 0.90)
    yield Bar.of("4096 bins / 16 bins, throughput", against(4096, 16), ">=", 0.85)
    yield Bar.of("65536 bins / 16 bins, throughput", against(65536, 16), ">=", 0.10, note="still usable")


@bench("migration-stall")
def migration_stall(progress: Progress) -> Iterator[Bar]:
    """Longest epoch while a quarter of the state moves between two processes; keys per bin fixed, bins growing x16."""
    stalls: dict[tuple[str, int], list[float]] = {}
    memory: dict[str, list[float]] = {"sender": [], "both processes": []}
    for repeat in range(MIGRATIONS):
        for plan in ("fluid", "optimized", "all-at-once"):
            for bins in (64, 1024):
                progress(f"repeat {repeat + 1} of {MIGRATIONS}, {plan}, {bins} bins")
                receiver, sender = sorted(run_program("migration.py", "-n2", plan, str(bins), "500"), key=len)
                stalls.setdefault((plan, bins), []).append(sender["stall_ms"])
                if (plan, bins) == ("fluid", 1024):
                    memory["sender"].append(sender["peak_mb"] / sender["before_mb"])
                    memory["both processes"].append(
                        (sender["peak_mb"] + receiver["peak_mb"]) / (sender["before_mb"] + receiver["before_mb"])
                    )
    for plan in ("fluid", "optimized"):
        growth = [many / few for many, few in zip(stalls[plan, 1024], stalls[plan, 64], strict=True)]
        note = f"{median(stalls[plan, 64]):.0f} ms to {median(stalls[plan, 1024]):.0f} ms"
        yield Bar.of(f"longest stall, {plan}, 1024 bins / 64 bins", growth, "<=", 1.5, note=note)
    growth = [many / few for many, few in zip(stalls["all-at-once", 1024], stalls["all-at-once", 64], strict=True)]
    note = f"{median(stalls['all-at-once', 64]):.0f} ms to {median(stalls['all-at-once', 1024]):.0f} ms"
    yield Bar.of("longest stall, all-at-once, 1024 bins / 64 bins", growth, ">=", 4.0, note=note)
    for whose, growth in memory.items():
        yield Bar.of(f"resident memory, fluid migration / steady, {whose}", growth, "<=", 1.2)
