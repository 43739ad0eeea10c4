"""A job for tests on Spark, and its input: it counts words, and takes its time until there is a file `hurry`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from operators.control.job_program import JobProgram
from operators.job.job_file import load_job
from operators.spark import JobOnSpark
from tests.process.jobs import written

WAIT_S = 120.0
"""Java takes its time."""

LINES = 20_000
EPOCH_LINES = 20

COUNTS = """
import time
from dataclasses import dataclass, field
from pathlib import Path
from operators import Job

job = Job("counts")

@dataclass
class Total:
    n: int = 0

@dataclass
class Count:
    total: Total = field(default_factory=Total)  # which no function names

def count(word, n, state):
    state.total.n += n
    return state, [(word, state.total.n)]

def slowly(line):
    if not Path(FOLDER, "hurry").exists():
        time.sleep(0.005)
    return line.split()

@job.dataflow
def counts(flow):
    words = flow.input("lines").flat_map(slowly).map(lambda word: (word, 1))
    flow.output("counts", words.stateful_state_machine(count, initial=Count, bins=16, name="count"))
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
    expected = Counter((folder / "book.txt").read_text().split())
    assert sorted((word, total) for _, (word, total) in written(folder / "out")) == sorted(
        (word, n) for word, count in expected.items() for n in range(1, count + 1)
    )


def pids(running: JobOnSpark) -> list[int]:
    """The processes of a job, as their own machine numbers them."""
    return [worker["pid"] for worker in running.status()["workers"]]
