"""One dataflow on every worker of a simulated cluster, and the workers' results put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from framework.dataflow.scope import Scope
from framework.progress.order import linear_key
from framework.simulation.cluster import SimulatedCluster
from framework.simulation.invariants import Invariants
from framework.worker.worker import Worker
from operators.capture.extract import Extracted

R = TypeVar("R")

SEEDS = range(6)


def run(
    build: Callable[[Scope], R],
    *,
    seed: int,
    workers: int = 3,
    congested_frames: int = 1_000_000,
    moves_max: int = 50_000,
) -> list[R]:
    """Run what `build` puts together to completion, checking all invariants of progress after every move.

    Returns what `build` returned, by worker.
    """
    results: dict[int, R] = {}

    def program(worker: Worker) -> Iterator[None]:
        with worker.dataflow() as scope:
            results[worker.index] = build(scope)
        yield

    cluster = SimulatedCluster(workers=workers, seed=seed, congested_frames=congested_frames)
    with Invariants(cluster):
        cluster.run(program, moves_max=moves_max)
    return [results[index] for index in range(workers)]


def merged(results: list[Extracted[Any]]) -> dict[Any, list[Any]]:
    """The records of all workers at each time, sorted."""
    by_time: dict[Any, list[Any]] = {}
    for result in results:
        for time, rows in result.by_time().items():
            by_time.setdefault(time, []).extend(rows)
    return {time: sorted(by_time[time]) for time in sorted(by_time, key=linear_key)}


def numbers(worker: int, *, epochs: int = 5, rows: int = 4) -> list[tuple[int, list[int]]]:
    """What a worker sends at each epoch: numbers that no other worker and no other epoch has."""
    return [(epoch, [worker * 1000 + epoch * 100 + row for row in range(rows)]) for epoch in range(epochs)]


def all_numbers(workers: int = 3, *, epochs: int = 5, rows: int = 4) -> dict[Any, list[int]]:
    """The numbers of all workers at each epoch, sorted."""
    by_time: dict[Any, list[int]] = {epoch: [] for epoch in range(epochs)}
    for worker in range(workers):
        for epoch, some in numbers(worker, epochs=epochs, rows=rows):
            by_time[epoch] += some
    return {time: sorted(some) for time, some in by_time.items()}
