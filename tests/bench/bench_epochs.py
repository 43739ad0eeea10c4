"""How soon an epoch of a job is complete."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory

from tests.bench.harness import Bar, Progress, bench
from tests.bench.programs import run_program
from tests.bench.words import WORDS_PER_LINE

LINES = 200_000
REPEATS = 3


@bench("epoch-latency")
def epoch_latency(progress: Progress) -> Iterator[Bar]:
    """From when an epoch of 1,000 lines is fed until it is complete: WordCount on rows, a job from a file to files."""
    with TemporaryDirectory() as directory:
        for keys in (1_000, 1_000_000):
            path = Path(directory, f"{keys}.txt")
            _write_lines(path, keys)
            for processes in (1, 2):
                middles, tails = list[float](), list[float]()
                for repeat in range(REPEATS):
                    progress(f"{keys:,} keys, -n{processes}, repeat {repeat + 1} of {REPEATS}")
                    out = f"{directory}/out-{keys}-{processes}-{repeat}"
                    [latencies_ms] = run_program("epoch_latency.py", f"-n{processes}", str(path), out)
                    ranked = sorted(latencies_ms)
                    middles.append(ranked[len(ranked) // 2])
                    tails.append(ranked[len(ranked) * 99 // 100])
                name = (
                    f"latency of an epoch, {keys:,} keys, {'one process' if processes == 1 else 'two processes'}, p99"
                )
                yield Bar.of(name, tails, "<=", 100, unit="ms", note=f"p50 {median(middles):.3g} ms")


def _write_lines(path: Path, keys: int) -> None:
    random = Random(1)
    with path.open("w") as file:
        for _ in range(LINES):
            file.write(" ".join(f"w{random.randrange(keys):06x}" for _ in range(WORDS_PER_LINE)) + "\n")
