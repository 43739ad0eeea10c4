"""Very many epochs through four processes, while a fifth joins, takes bins and leaves, over and over: what grows?

Not part of the suite. A million epochs take about half an hour:

    .venv/bin/python -m tests.bench.programs.soak_epochs --epochs 1000000

After each leave, with nothing under way, it looks at the processes that the job began with and at their supervisor: at
resident memory, threads and file descriptors of each, and at the temporary files of all. A run fails if at the end
there is a descriptor, thread or file more than after the first thousand epochs; if the median memory of the last
quarter is above that of the beginning by more than `GROWTH_MIB` and `GROWTH_SHARE`; if a count is wrong, or the job
ends badly.
"""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.bench.programs.running_job import JobWentWrong, RunningJob, running_job
from tests.bench.programs.soak_rescale import JOB, check
from tests.bench.programs.word_feed import WordFeed, vocabulary

PROCESSES, KEYS, BINS, DRAWN, CHUNK_WORDS = 4, 200, 32, 100_000, 1_000
FIRST_EPOCHS = 1_000
EARLY_SHARE = 0.05
"""The part of all epochs whose memory is what it is in the beginning: it is warm by then."""

GROWTH_MIB, GROWTH_SHARE = 4.0, 0.05
LOOKS, LOOK_S = 5, 0.2
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one process takes up."""

    resident_mib: float
    threads: int
    descriptors: Counter[str]
    """By what they are of; those of the job's results, which come and go, are left out."""


@dataclass(frozen=True, slots=True)
class Sample:
    """All processes at a moment at which nothing is under way."""

    epoch: int
    processes: dict[str, Footprint]
    files: frozenset[str]


def main() -> int:
    """Run it, and say what grew."""
    parser = ArgumentParser(description="Very many epochs, with joins and leaves.")
    parser.add_argument("--epochs", type=int, default=1_000_000)
    parser.add_argument("--every", type=int, default=10_000, help="epochs from one join to the next")
    parser.add_argument("--samples", type=Path, help="write what was seen to this file, as JSON lines")
    flags = parser.parse_args()
    with TemporaryDirectory(prefix="soak-") as name:
        samples = list(soak(Path(name).resolve(), flags.epochs, flags.every, flags.samples))
    grown = [*growth(samples, flags.epochs)]
    print(f"{samples[-1].epoch:,} epochs, {len(samples) - 1} joins and leaves; every count is right")
    print(table(samples, flags.epochs))
    print(*grown or ["nothing has grown"], sep="\n")
    return 1 if grown else 0


def soak(folder: Path, epochs: int, every: int, keep: Path | None) -> Iterator[Sample]:
    """Run so many epochs with a join and a leave from time to time; a sample after each, and one before the first."""
    words, drawn = vocabulary(KEYS), np.random.default_rng(1).integers(0, KEYS, DRAWN)
    feed = WordFeed(folder / "lines", words, drawn, chunk_words=CHUNK_WORDS, words_per_line=1)
    temporary = folder / "temporary"
    temporary.mkdir()
    environment = {"SOAK_JOB": json.dumps({"columns": False, "bins": BINS}), "TMPDIR": str(temporary)}
    ends = ("--epoch-lines", "1", "--input", "lines=lines", "--output", "counts=counts")
    with feed.writing(), running_job(folder, JOB, f"-n{PROCESSES}", *ends, environment=environment) as job:
        wait_for_epoch(job, FIRST_EPOCHS)
        for cycle in count(1):
            sample = look(job, folder)
            if keep is not None:
                note(sample, keep)
            yield sample
            if sample.epoch >= epochs:
                break
            wait_for_epoch(job, min(epochs, max(sample.epoch + 1, cycle * every)))
            for processes in (PROCESSES + 1, PROCESSES):
                said = job.command("scale", str(processes))
                if said.code:
                    raise JobWentWrong(f"`hailer scale {processes}` said\n{said.text}")
        feed.close()
        job.end()
    check(job, words, feed.counts())


def wait_for_epoch(job: RunningJob, epoch: int) -> dict[str, Any]:
    """Wait until all epochs before it are complete; the status then."""
    while (status := job.status()) is None or (status["frontier"] or [0])[0] < epoch:
        if job.ended:
            raise JobWentWrong(f"the job has ended; it said\n{job.errors()}")
        time.sleep(POLL_S)
    return status


def look(job: RunningJob, folder: Path) -> Sample:
    """What there is when only those processes are left that the job began with.

    What is there for a moment, such as the connection of a command that has just ended, is not in each of some looks.
    """
    status = wait_for_epoch(job, FIRST_EPOCHS)
    deadline_s = time.monotonic() + 10
    while len(children(status["pid"])) != PROCESSES:
        if time.monotonic() > deadline_s:
            raise JobWentWrong(f"processes are left: {children(status['pid'])}, {status['workers']}")
        time.sleep(POLL_S)
    pids = {"supervisor": status["pid"]} | {f"process {one['process']}": one["pid"] for one in status["workers"]}
    looks: list[dict[str, Footprint]] = []
    for _ in range(LOOKS):
        time.sleep(LOOK_S)
        looks.append({name: footprint(pid, folder) for name, pid in pids.items()})
    processes = {
        name: Footprint(
            median(seen[name].resident_mib for seen in looks),
            min(seen[name].threads for seen in looks),
            min((seen[name].descriptors for seen in looks), key=Counter.total),
        )
        for name in pids
    }
    return Sample(status["frontier"][0], processes, files(folder))


def footprint(pid: int, folder: Path) -> Footprint:
    """One process, as Linux sees it."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    facts = {words[0]: words[1] for words in lines if len(words) > 1}
    descriptors: Counter[str] = Counter()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            target = os.readlink(link)
            if not target.startswith(f"{folder}/counts/"):
                descriptors[target.split(":[")[0]] += 1
    return Footprint(int(facts["VmRSS:"]) / 1024, int(facts["Threads:"]), descriptors)


def children(pid: int) -> list[int]:
    """The processes that a process has started and that have not been reaped."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def files(folder: Path) -> frozenset[str]:
    """All files in the folder of a run, but the results of its job."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return frozenset(name for name in found if not name.startswith("counts"))


def growth(samples: Sequence[Sample], epochs: int) -> Iterator[str]:
    """What is more at the end than in the beginning."""
    first, last = samples[0], samples[-1]
    for name, before in first.processes.items():
        after = last.processes[name]
        if after.threads > before.threads:
            yield f"{name}: {before.threads} threads became {after.threads}"
        if more := after.descriptors - before.descriptors:
            yield f"{name}: {before.descriptors.total()} descriptors became {after.descriptors.total()}: {dict(more)}"
        early_mib, late_mib = memory(samples, name, epochs)
        if late_mib > early_mib + GROWTH_MIB and late_mib > early_mib * (1 + GROWTH_SHARE):
            yield f"{name}: {early_mib:.1f} MiB became {late_mib:.1f}"
    if more_files := last.files - first.files:
        yield f"files: {len(first.files)} became {len(last.files)}: {sorted(more_files)[:10]}"


def memory(samples: Sequence[Sample], name: str, epochs: int) -> tuple[float, float]:
    """The resident memory of a process in the beginning and in the last quarter."""
    early = [sample for sample in samples if sample.epoch <= max(FIRST_EPOCHS, EARLY_SHARE * epochs)] or samples[:1]
    late = [sample for sample in samples if sample.epoch > 0.75 * epochs]
    return median(_resident(early, name)), median(_resident(late, name))


def table(samples: Sequence[Sample], epochs: int) -> str:
    """What each process took up, in brief."""
    lines = [f"{'':<12}{'MiB, early':>12}{'last quarter':>14}{'threads':>10}{'descriptors':>13}"]
    for name, before in samples[0].processes.items():
        early_mib, late_mib = memory(samples, name, epochs)
        after = samples[-1].processes[name]
        threads, descriptors = (
            f"{before.threads}, {after.threads}",
            f"{before.descriptors.total()}, {after.descriptors.total()}",
        )
        lines.append(f"{name:<12}{early_mib:>12.1f}{late_mib:>14.1f}{threads:>10}{descriptors:>13}")
    return "\n".join([*lines, f"files: {len(samples[0].files)}, {len(samples[-1].files)}"])


def note(sample: Sample, path: Path) -> None:
    """Write a sample down."""
    processes = {
        name: [seen.resident_mib, seen.threads, seen.descriptors.total()] for name, seen in sample.processes.items()
    }
    with path.open("a", encoding="utf-8") as file:
        row = {"at_s": round(time.time()), "epoch": sample.epoch, "processes": processes, "files": len(sample.files)}
        file.write(json.dumps(row) + "\n")


def _resident(samples: Sequence[Sample], name: str) -> list[float]:
    return [sample.processes[name].resident_mib for sample in samples]


if __name__ == "__main__":
    sys.exit(main())
