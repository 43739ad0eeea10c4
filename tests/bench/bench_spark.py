"""What it costs to have Spark bring a job's data in and carry it away, against what Spark has for the same."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from framework.launch.execute import example
from framework.wire.columns import decode_batch, encode_batch
from operators import to_stream
from operators.schema import arrow_schema, batch_of, rows_of
from tests.bench.bench_core import count
from tests.bench.harness import Bar, Progress, bench
from tests.bench.programs import run_program

WARM_FILES, FILES, LINES, WORDS, VOCABULARY = 1, 4, 2_500, 100, 1_000
SPARK_BATCH = 10_000
"""How many rows Spark puts into an Arrow batch."""

KEYS = 1_000_000

REPEATS = 3

PEERS = {"transformWithState": 1.0, "applyInPandasWithState": 1.0, "groupBy": 0.05}
"""What Spark has for the same, and how many times as fast Hailer is to be."""


@bench("spark-rows")
def spark_rows(progress: Progress) -> Iterator[Bar]:
    """WordCount from files through Spark: each count of each word goes into a sink that drops it.

    All have the same machine. Spark's own have a slot per core, as many shuffle partitions, and RocksDB with
    changelogs as state store, which `transformWithState` requires. Hailer has as many slots, and two processes. A query
    is timed after one of its kind has run in the same session. What comes out of `groupBy` is one count per word and
    batch, and no Python is involved.
    """
    words = FILES * LINES * WORDS
    taken: dict[str, list[Any]] = defaultdict(list)
    for repeat, system in product(range(REPEATS), (*PEERS, "hailer", "nothing")):
        progress(f"{repeat + 1}/{REPEATS}: {system}")
        with TemporaryDirectory() as folder:
            write_files(Path(folder))
            [took] = run_program("spark_rows.py", system, folder)
        wanted = FILES * VOCABULARY if system == "groupBy" else words
        assert took["rows"] == wanted, (system, took, wanted)
        taken[system].append(took)
    ours_s = [took["seconds"] for took in taken["hailer"]]
    for system, bar in PEERS.items():
        theirs_s = [took["seconds"] for took in taken[system]]
        note = f"{words / median(ours_s):,.0f} words/s against {words / median(theirs_s):,.0f}"
        ratios = [theirs / ours for theirs, ours in zip(theirs_s, ours_s, strict=True)]
        yield Bar.of(f"Spark -> Hailer -> Spark / Spark's {system}", ratios, ">=", bar, note=note)
    progress("conversion")
    cpu = {part: median(took["cpu_s"][part] for took in taken["hailer"]) for part in ("jvm", "pyspark", "job")}
    yield Bar.of(
        "Spark's reading and splitting alone / Spark -> Hailer -> Spark, time",
        [alone["seconds"] / ours for alone, ours in zip(taken["nothing"], ours_s, strict=True)],
        "<=",
        1.0,
        note=f"CPU s: JVM {cpu['jvm']:.1f}, Spark's Python {cpu['pyspark']:.1f}, job's processes {cpu['job']:.1f}; "
        f"alone in one process: {conversion_shown()}",
    )


@bench("spark-rescale")
def spark_rescale(progress: Progress) -> Iterator[Bar]:
    """The longest time without a result: a job that is scaled from 2 to 3, and a query that is stopped and restarted.

    Spark's session is stopped and opened again in the same JVM, with three slots instead of two; it has a warm JVM and
    warm files. The time is that from `stop()` to the end of the first batch.
    """
    felt: dict[str, list[Any]] = defaultdict(list)
    for repeat, system in product(range(REPEATS), ("hailer", "groupBy")):
        progress(f"{repeat + 1}/{REPEATS}: {system}, {KEYS:,} keys")
        with TemporaryDirectory() as folder:
            [figures] = run_program("spark_rescale.py", system, str(KEYS), folder)
        felt[system].append(figures)

    def middle(system: str, figure: str) -> float:
        return float(median(each[figure] for each in felt[system]))

    note = (
        f"{middle('hailer', 'gap_s'):.1f} s against {middle('groupBy', 'gap_s'):.1f} s; undisturbed "
        f"{middle('hailer', 'undisturbed_s'):.1f} s and {middle('groupBy', 'undisturbed_s'):.1f} s; within the job "
        f"{1000 * middle('hailer', 'stall_s'):.0f} ms; {middle('hailer', 'moved_bytes'):,.0f} bytes moved; scaled in "
        f"{middle('hailer', 'scaling_s'):.1f} s"
    )
    name = "no results: Hailer scales 2 to 3 / Spark's groupBy restarts, 10^6 keys"
    gaps = [ours["gap_s"] / theirs["gap_s"] for ours, theirs in zip(felt["hailer"], felt["groupBy"], strict=True)]
    yield Bar.of(name, gaps, "<=", 1.0, note=note)


def write_files(folder: Path, *, warm: int = WARM_FILES, timed: int = FILES, lines: int = LINES) -> None:
    """The files that all of them read: in a folder to get warm with, and in one whose counting is timed."""
    dice = Random(1)
    for name, files in (("warm", warm), ("timed", timed)):
        (folder / name).mkdir()
        for number in range(files):
            (folder / name / f"{number}.txt").write_text("".join(f"{line}\n" for line in some_lines(dice, lines)))


def some_lines(dice: Random, lines: int) -> list[str]:
    """Lines of words of ten characters."""
    return [" ".join(f"w{dice.randrange(VOCABULARY):09}" for _ in range(WORDS)) for _ in range(lines)]


def conversion_shown() -> str:
    """What parts of the job take for as many words, in CPU seconds."""
    lines = some_lines(Random(1), FILES * LINES)
    schema = arrow_schema({"word": str, "count": int})
    spent_s: dict[str, float] = {}

    into = [
        encode_batch(batch_of(lines[at : at + SPARK_BATCH], arrow_schema({"value": str}), "lines"))
        for at in range(0, len(lines), SPARK_BATCH)
    ]
    begun_s = time.process_time()
    came = [line for data in into for line in rows_of(decode_batch(data))]
    spent_s["Arrow to rows"] = time.process_time() - begun_s

    counts: list[list[tuple[str, int]]] = []
    begun_s = time.process_time()
    example(
        lambda scope: (
            to_stream(scope, came)
            .flat_map(str.split)
            .map(lambda word: (word, 1))
            .stateful_state_machine(count, initial=0)
            .inspect_batch(lambda _, rows: counts.append(rows))
        )
    )
    spent_s["the job"] = time.process_time() - begun_s

    begun_s = time.process_time()
    for rows in counts:
        encode_batch(batch_of(rows, schema, "counts"))
    spent_s["rows to Arrow"] = time.process_time() - begun_s
    return ", ".join(f"{part} {seconds:.2f}" for part, seconds in spent_s.items())
