"""How much CPU time the processes that descend from this one have spent, by what they are. Linux only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
TASK_DEPTH = 2
"""How far below the JVM tasks are: it starts a daemon, which forks them. A job's processes are children of tasks."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds since the beginning of each kind of process; those that have ended count where they were waited for."""

    jvm: float
    pyspark: float
    """Spark's own Python processes: tasks, and data sources in the driver."""
    job: float

    def since(self, earlier: Spent) -> Spent:
        """What was spent in between."""
        return Spent(self.jvm - earlier.jvm, self.pyspark - earlier.pyspark, self.job - earlier.job)


def spent() -> Spent:
    """As of now."""
    jvm = pyspark = job = 0.0
    for depth, pid in _below(os.getpid(), -1, _children()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        seconds = sum(map(int, fields[11:15])) / TICKS_PER_S
        if depth <= 0:
            jvm += seconds
        elif depth <= TASK_DEPTH:
            pyspark += seconds
        else:
            job += seconds
    return Spent(jvm, pyspark, job)


def _below(pid: int, depth: int, children: dict[int, list[int]]) -> Iterator[tuple[int, int]]:
    """What descends from a process, with its depth below the JVM."""
    for child in children.get(pid, []):
        yield depth + 1, child
        yield from _below(child, depth + 1, children)


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    return children
