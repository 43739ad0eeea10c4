"""What columns cost: against bare kernels, against rows, on several workers, on bins, and when bins move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from operators import Input, Probe, Worker, execute
from operators import empty as empty_stream
from operators.columns import ColumnInput, split_words
from routing.bins import Bins
from routing.columns.compiled import kernel
from routing.columns.hashing import hash_bytes
from routing.columns.keys import KeyColumns, byte_strings
from routing.columns.memory import empty
from routing.columns.partition import Division, divide
from routing.hashing import STR_SEED
from tests.bench.harness import Bar, Progress, bench, seconds
from tests.bench.programs import run_program
from tests.bench.programs.columns import WORDS
from tests.bench.words import BATCH, line_batches, word_batches

REPEATS = 5
WORKER_REPEATS = 3
ROW_BATCHES = 8
LINES_M_PER_S, SKETCH_M_PER_S = 16.0, 1 / (1 / 60 + 1 / 150)
"""What is asked of lines on the machine that the bar was set for, and what the sketch does there."""
WORKER_BATCHES, ROUNDS = 40, 12
"""More than caches hold; and so many times that two workers take seconds, of which their beginning is little."""
MIGRATION_KEYS, MIGRATION_BINS = 10_000_000, 1024
MIGRATIONS = 3


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


@bench("columns-wordcount")
def columns_wordcount(progress: Progress) -> Iterator[Bar]:
    """WordCount on columns on one worker, against bare kernels and against rows."""
    for keys, batches in ((1_000, 100), (1_000_000, 200)):
        words = word_batches(keys, batches)
        rows = [batch["word"].to_pylist() for batch in words[:ROW_BATCHES]]
        times = _interleaved(
            {
                "columns": partial(_columns, words),
                "kernels": partial(seconds, partial(_kernels, words, 4 * keys)),
                "rows": partial(_rows, rows),
            },
            progress,
        )
        rates = {
            name: [(ROW_BATCHES if name == "rows" else batches) * BATCH / 1e6 / one for one in spent]
            for name, spent in times.items()
        }
        note = ", ".join(f"{name} {median(rate):.3g}" for name, rate in rates.items()) + " million words/s"
        against = _divided(rates["columns"], rates["kernels"])
        yield Bar.of(f"columns WordCount, {keys:,} keys / bare kernels", against, ">=", 1 / 2, note=note)
        against = _divided(rates["columns"], rates["rows"])
        yield Bar.of(f"columns WordCount, {keys:,} keys / rows", against, ">=", 20)

    words, lines = word_batches(1_000, 100), line_batches(1_000, 100)
    times = _interleaved(
        {
            "from lines": partial(_columns, lines),
            "kernels": partial(seconds, partial(_kernels, words, 4_000)),
        },
        progress,
    )
    rates = {name: [100 * BATCH / 1e6 / one for one in spent] for name, spent in times.items()}
    note = ", ".join(f"{name} {median(rate):.3g}" for name, rate in rates.items()) + " million words/s"
    against = _divided(rates["from lines"], rates["kernels"])
    name = "columns WordCount from lines, 1,000 keys / bare kernels on words"
    yield Bar.of(name, against, ">=", LINES_M_PER_S / SKETCH_M_PER_S, note=note)


@bench("columns-workers")
def columns_workers(progress: Progress) -> Iterator[Bar]:
    """WordCount on columns by two workers, each with half of the batches, against one."""
    for keys in (1_000, 1_000_000):
        spent, note = _spent_by_workers("fold", keys, ROUNDS, ("-w1", "-n2", "-w2"), progress)
        against = _divided(spent["-w1"], spent["-n2"])
        yield Bar.of(f"columns WordCount, {keys:,} keys, two processes / one", against, ">=", 1.7, note=note)
        against = _divided(spent["-w1"], spent["-w2"])
        yield Bar.of(f"columns WordCount, {keys:,} keys, two threads / one", against, ">=", 1.7)
    for keys, rounds in ((1_000, ROUNDS), (1_000_000, 4)):
        spent, note = _spent_by_workers("aggregate", keys, rounds, ("-w1", "-n2"), progress)
        against = _divided(spent["-w1"], spent["-n2"])
        yield Bar.of(f"columns, counts per epoch, {keys:,} keys, two processes / one", against, ">=", 1.7, note=note)


def _spent_by_workers(
    how: str, keys: int, rounds: int, flags: Sequence[str], progress: Progress
) -> tuple[dict[str, list[float]], str]:
    """How long workers take, by how many there are; and how many words that is.

    The note also tells what the machine has for two processes that have nothing to do with each other.
    """
    arguments = (how, str(keys), str(WORKER_BATCHES), str(rounds))
    runs = {flag: partial(_slowest, "columns.py", flag, *arguments) for flag in flags}
    spent = _interleaved(runs | {"apart": partial(_two_at_once, runs["-w1"])}, progress, WORKER_REPEATS)
    apart = median(_divided([2 * one for one in spent["-w1"]], spent.pop("apart")))
    words = rounds * WORKER_BATCHES * WORDS
    rate = ", ".join(f"{flag} {words / 1e6 / median(times):.3g}" for flag, times in spent.items())
    return spent, f"{rate} million words/s; two processes that exchange nothing / one {apart:.3g}x"


@bench("columns-bins")
def columns_bins(progress: Progress) -> Iterator[Bar]:
    """WordCount on columns on one worker: many bins against few, and bins against keys fixed by hash."""
    words = word_batches(1_000_000, 200)
    times = _interleaved(
        {
            "4096": partial(_columns, words, 4096),
            "16": partial(_columns, words, 16),
            "256": partial(_columns, words, 256),
            "fixed": partial(_columns, words),
        },
        progress,
    )
    yield Bar.of("columns, 4096 bins / 16 bins, throughput", _divided(times["16"], times["4096"]), ">=", 0.85)
    yield Bar.of("columns, 256 bins / fixed by hash, throughput", _divided(times["fixed"], times["256"]), ">=", 0.9)
    words = word_batches(1_000_000, WORKER_BATCHES, words=WORDS)
    runs = {f"{parts}": partial(seconds, partial(_deal, words, parts)) for parts in (2, 32)}
    times = _interleaved(runs, progress)
    name = "columns, dealt out to 32 workers / to 2, throughput"
    yield Bar.of(name, _divided(times["2"], times["32"]), ">=", 0.7)


def _deal(words: Sequence[pa.RecordBatch], parts: int) -> None:
    bins = Bins(256)
    key = KeyColumns.of(words[0].schema, "word", "the bench")
    division = Division(bins.shift, (np.arange(bins.count) % parts).astype(np.uint16), parts)
    for batch in words:
        divide(batch, key, division)


@bench("columns-migration")
def columns_migration(progress: Progress) -> Iterator[Bar]:
    """Longest epoch, bytes and memory while half of a worker's bins move to another process, and counting goes on."""
    felt: dict[str, list[dict[str, Any]]] = {"none": [], "optimized": [], "all-at-once": []}
    growth: dict[str, list[float]] = {"sender": [], "both processes": []}
    for repeat in range(MIGRATIONS):
        for plan, seen in felt.items():
            progress(f"repeat {repeat + 1} of {MIGRATIONS}, {MIGRATION_KEYS:,} keys, {plan}")
            lines = run_program("columns_migration.py", "-n2", plan, str(MIGRATION_BINS), str(MIGRATION_KEYS))
            sender, receiver = sorted(lines, key=lambda line: int(line["worker"]))
            counted = [one + other for one, other in zip(sender["sums"], receiver["sums"], strict=True)]
            assert counted == sender["expected"], (plan, counted, sender["expected"])
            seen.append(sender)
            if plan == "optimized":
                (before, peak), (before_other, peak_other) = (_memory(line, sender) for line in (sender, receiver))
                growth["sender"].append(peak / before)
                growth["both processes"].append((peak + peak_other) / (before + before_other))
    stalls = {plan: [one["stall_ms"] for one in seen] for plan, seen in felt.items()}
    note = ", ".join(f"{plan} {median(figures):.3g} ms" for plan, figures in stalls.items())
    beyond = [one - other for one, other in zip(stalls["optimized"], stalls["none"], strict=True)]
    yield Bar.of("columns, longest epoch, optimized - undisturbed", beyond, "<=", 100, unit="ms", note=note)
    against = _divided(stalls["optimized"], stalls["all-at-once"])
    yield Bar.of("columns, longest epoch, optimized / all at once", against, "<=", 0.1)
    sizes = [one["shipped_bytes"] / one["moved_keys"] for one in felt["optimized"]]
    note = f"{median(sizes):.3g} bytes per key, {felt['optimized'][0]['moved_keys']:,} of {MIGRATION_KEYS:,} keys"
    yield Bar.of("columns, bytes sent / bytes of key and state", [one / 16 for one in sizes], "<=", 1.5, note=note)
    for whose, figures in growth.items():
        yield Bar.of(f"columns, resident memory, migration / steady, {whose}", figures, "<=", 1.2)


def _memory(line: dict[str, Any], sender: dict[str, Any]) -> tuple[float, float]:
    """What a process had in memory just before the migration, and at most during it."""
    before = [size for at, size in line["memory"] if at < sender["began_s"]]
    during = [size for at, size in line["memory"] if sender["began_s"] <= at <= sender["ended_s"]]
    return before[-1], max(during)


def _interleaved(
    runs: Mapping[str, Callable[[], float]], progress: Progress, repeats: int = REPEATS
) -> dict[str, list[float]]:
    """How long each takes, by its own account; they take turns, after one round that is not counted."""
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(repeats + 1):
        progress(f"repeat {repeat} of {repeats}, {', '.join(runs)}" if repeat else f"warming up {', '.join(runs)}")
        for name, run in runs.items():
            spent[name].append(run())
    return {name: times[1:] for name, times in spent.items()}


def _divided(ours: list[float], theirs: list[float]) -> list[float]:
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def _slowest(program: str, *arguments: str) -> float:
    return max(float(line["seconds"]) for line in run_program(program, *arguments))


def _two_at_once(run: Callable[[], float]) -> float:
    """How long the slower of two takes."""
    with ThreadPoolExecutor(2) as pool:
        return max(pool.map(lambda _: run(), range(2)))


def _columns(batches: list[pa.RecordBatch], bins: int | None = None) -> float:
    """Count words on one worker, a batch at a time, from words or from lines; the seconds it took once it was built."""
    schema = batches[0].schema

    def main(worker: Worker) -> float:
        input, probe, seen = ColumnInput(schema), Probe(), [0]
        with worker.dataflow() as scope:
            stream = input.stream(scope)
            words = stream if schema.names == ["word"] else stream.flat_map(split_words("line"))
            options: dict[str, Any] = {} if bins is None else {"control": empty_stream(scope), "bins": bins}
            counts = words.stateful_state_machine(
                count, key="word", state={"total": int}, initial=0, output={"word": str, "total": int}, **options
            )
            counts.inspect(lambda batch: seen.__setitem__(0, seen[0] + len(batch))).probe(probe)

        def run() -> None:
            for number, batch in enumerate(batches):
                input.send(batch)
                input.advance_to(number + 1)
                worker.step_while(partial(probe.less_than, number + 1))

        spent = seconds(run)
        assert seen == [BATCH * len(batches)], seen
        return spent

    [spent] = execute(main)
    return spent


def _rows(batches: list[list[str]]) -> float:
    """The same on rows."""

    def main(worker: Worker) -> float:
        input, probe = Input[str](), Probe()
        with worker.dataflow() as scope:
            pairs = input.stream(scope).map(lambda word: (word, 1))
            pairs.stateful_state_machine(count, initial=0).probe(probe)

        def run() -> None:
            for number, batch in enumerate(batches):
                input.send_batch(batch)
                input.advance_to(number + 1)
                worker.step_while(partial(probe.less_than, number + 1))

        return seconds(run)

    [spent] = execute(main)
    return spent


def _kernels(batches: list[pa.RecordBatch], slots_min: int) -> None:
    """The least that counting words can be: hashes, a table that takes equal hashes for equal words, and counts."""
    table = np.zeros((1 << (slots_min - 1).bit_length(), 2), np.uint64)
    for batch in batches:
        hashes, counts = empty(len(batch), np.uint64), empty(len(batch), np.int64)
        hash_bytes(*byte_strings(batch["word"]), np.uint64(STR_SEED), hashes)
        _count(table, hashes, counts)


@kernel
def _count(table, hashes, counts):
    mask = np.uint64(len(table) - 1)
    for row in range(len(hashes)):
        hash = hashes[row]
        at = hash & mask
        while table[at, 0] != hash and table[at, 1] != np.uint64(0):
            at = (at + np.uint64(1)) & mask
        table[at, 0] = hash
        table[at, 1] += np.uint64(1)
        counts[row] = np.int64(table[at, 1])
