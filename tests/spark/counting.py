"""A job for tests on Spark, and its input: it counts words, and takes its time until there is a file `hurry`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from operators.job_files import JobProgram
from operators.spark import JobOnSpark
from routing.control.job_file import load_job
from tests.process.test_scale import COUNTS

WAIT_S = 120.0
LINES = 20_000
EPOCH_LINES = 20


def write_counting(folder: Path) -> None:
    """Put the job and its input into a folder; executors have other working directories, so it names its files."""
    (folder / "counts.py").write_text(COUNTS.replace('Path("', f'Path("{folder}/'))
    text = [" ".join(f"w{(line * word) % 97}" for word in range(1, 4)) for line in range(LINES)]
    (folder / "book.txt").write_text("\n".join(text) + "\n")


def counting(folder: Path) -> JobProgram:
    """The job on its files."""
    write_counting(folder)
    job = load_job(folder / "counts.py")
    book, out = {"lines": str(folder / "book.txt")}, {"counts": str(folder / "out")}
    return JobProgram(job, book, out, EPOCH_LINES)  # type: ignore[arg-type]


def pids(running: JobOnSpark) -> list[int]:
    """The processes of a job, as their own machine numbers them."""
    overseer = running._plane.overseer
    assert overseer is not None
    return [worker["pid"] for worker in overseer.status({})["workers"]]


def wait_until(condition: Callable[[], object]) -> None:
    """Poll, with a bound: Java takes its time."""
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {WAIT_S} s: {condition}"
        time.sleep(0.05)
