"""WordCount beside what one would otherwise take for it: the same files, the same two cores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tests.bench.bench_spark import WORDS, write_files
from tests.bench.harness import Bar, CannotRun, Progress, bench
from tests.bench.programs import run_program

WARM_FILES, FILES, LINES = 2, 4, 25_000
REPEATS = 3
PACKAGES = ("bytewax", "duckdb", "polars")

SPARK = {"Spark's groupBy": "groupBy", "Spark -> Hailer -> Spark": "hailer-columns"}
PEERS = {"Hailer": 1.0, "bytewax": 1.0, "Polars, batch": 0.02, "DuckDB, batch": 0.02}


@bench("peers")
def peers(progress: Progress) -> Iterator[Bar]:
    """Ten million words, 1,000 different ones, in four files. Hailer's own has two processes that read two files each,
    and puts out a count per word and epoch of 25,000 lines; Spark's streaming `groupBy` one per word and file, as does
    Hailer between two Sparks; bytewax one per word, on two workers. Polars and DuckDB read and group all at once, with
    as many threads as there are cores: no stream, and so the limit. All have counted other files before.
    """
    if missing := [package for package in PACKAGES if find_spec(package) is None]:
        raise CannotRun(f"{', '.join(missing)} must be there: .venv/bin/pip install -e '.[bench]'")
    words = FILES * LINES * WORDS
    taken_s: dict[str, list[float]] = defaultdict(list)
    with TemporaryDirectory() as made:
        write_files(Path(made), warm=WARM_FILES, timed=FILES, lines=LINES)
        for repeat, system in product(range(REPEATS), (*PEERS, *SPARK)):
            progress(f"{repeat + 1}/{REPEATS}: {system}")
            taken_s[system].append(seconds_of(system, Path(made), words))
    ours_s, through_s = taken_s["Hailer"], taken_s["Spark -> Hailer -> Spark"]
    for system, bar in {**PEERS, "Spark's groupBy": 1.0}.items():
        if system != "Hailer":
            theirs_s = taken_s[system]
            yield Bar.of(
                f"Hailer / {system}",
                [theirs / ours for theirs, ours in zip(theirs_s, ours_s, strict=True)],
                ">=",
                bar,
                note=f"{rate(words, ours_s)} against {rate(words, theirs_s)} words/s, {_version(system)}",
            )
    group_by_s = taken_s["Spark's groupBy"]
    yield Bar.of(
        "Spark -> Hailer -> Spark, columns / Spark's groupBy",
        [theirs / ours for theirs, ours in zip(group_by_s, through_s, strict=True)],
        ">=",
        1.0,
        note=f"{rate(words, through_s)} against {rate(words, group_by_s)} words/s",
    )


def seconds_of(system: str, folder: Path, words: int) -> float:
    """What a system takes for the timed files."""
    if system in SPARK:
        with TemporaryDirectory() as own:
            for name in ("warm", "timed"):
                (Path(own) / name).symlink_to(folder / name)
            [took] = run_program("spark_rows.py", SPARK[system], own)
        return float(took["seconds"])
    name = system.partition(",")[0].lower()
    flags = ["-n2"] if system == "Hailer" else []
    took = run_program("peers.py", *flags, name, str(folder))
    assert sum(one["words"] for one in took) == words, (system, took)
    return max(float(one["seconds"]) for one in took)


def rate(words: int, taken_s: list[float]) -> str:
    return f"{words / median(taken_s):,.0f}"


def _version(system: str) -> str:
    name = {"Spark's groupBy": "pyspark"}.get(system, system.partition(",")[0].lower())
    return f"{name} {version(name)}"
