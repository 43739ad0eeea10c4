"""A job for tests on Spark, and its input: it counts words, and takes its time until there is a file `hurry`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from operators.control.job_program import JobProgram
from operators.job.job_file import load_job
from operators.spark import JobOnSpark

WAIT_S = 120.0
"""Java takes its time."""

LINES = 20_000
EPOCH_LINES = 20

COUNTS = """
import time
from pathlib import Path
from operators import Job

job = Job("counts")

def slowly(line):
    if not Path(FOLDER, "hurry").exists():
        time.sleep(0.005)
    return line.split()

@job.dataflow
def counts(flow):
    words = flow.input("lines").flat_map(slowly).map(lambda word: (word, 1))
    count = lambda word, n, total: (total + n, [(word, total + n)])
    flow.output("counts", words.stateful_state_machine(count, initial=0, bins=16, name="count"))
"""


def write_counting(folder: Path) -> None:
    """Put the job and its input into a folder; executors have other working directories, so it names its files."""
    (folder / "counts.py").write_text(COUNTS.replace("FOLDER", repr(str(folder))))
    text = [" ".join(f"w{(line * word) % 97}" for word in range(1, 4)) for line in range(LINES)]
    (folder / "book.txt").write_text("\n".join(text) + "\n")


def counting(folder: Path) -> JobProgram:
    """The job on its files."""
    write_counting(folder)
    job = load_job(folder / "counts.py")
    book, out = {"lines": str(folder / "book.txt")}, {"counts": str(folder / "out")}
    return JobProgram(job, book, out, EPOCH_LINES)


def check_counts(folder: Path) -> None:
    """Every word of the book was counted from 1 to how often it occurs."""
    rows = [json.loads(line) for path in (folder / "out").iterdir() for line in path.read_text().splitlines()]
    expected = Counter((folder / "book.txt").read_text().split())
    assert sorted((word, total) for _, (word, total) in rows) == sorted(
        (word, n) for word, count in expected.items() for n in range(1, count + 1)
    )


def pids(running: JobOnSpark) -> list[int]:
    """The processes of a job, as their own machine numbers them."""
    return [worker["pid"] for worker in running.status()["workers"]]
