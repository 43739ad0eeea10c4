"""What the workers of a job say, put together: pure functions from their answers to the job's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from framework.membership.members import WorkerId
from framework.progress.antichain import Antichain
from operators.control.job_messages import OperatorRow
from operators.control.worker_messages import BinTable, BlockerState, Frontier, WorkerStatus
from routing.bins import BinId

B = TypeVar("B", bound=BlockerState)


def least_frontier(frontiers: Iterable[Frontier]) -> Frontier:
    """The least times in any worker's view."""
    return tuple(Antichain(time for frontier in frontiers for time in frontier))


def least_blockers(found: Sequence[B]) -> tuple[B, ...]:
    """Of all workers' holdings the ones with the least results: another's later result holds nothing back."""
    least = set(Antichain(blocker.arrives for blocker in found))
    return tuple(blocker for blocker in found if blocker.arrives in least)


def operator_rows(
    before: Mapping[WorkerId, WorkerStatus], answers: Mapping[WorkerId, WorkerStatus]
) -> tuple[OperatorRow, ...]:
    """Each operator on all workers: their records per second together, and the part of their time that it takes."""
    rows: dict[str, OperatorRow] = {}
    for worker, answer in answers.items():
        earlier = before.get(worker)
        counted = {operator.path: operator for operator in earlier.operators} if earlier else {}
        elapsed_s = answer.metered_s - (earlier.metered_s if earlier else 0.0)
        for operator in answer.operators:
            row = rows.setdefault(operator.path, OperatorRow(operator.path, operator.name, operator.frontier, 0.0, 0.0))
            was = counted.get(operator.path, replace(operator, records=0, busy_s=0.0))
            if elapsed_s > 0:
                records, busy_s = max(0, operator.records - was.records), max(0.0, operator.busy_s - was.busy_s)
                rows[operator.path] = replace(
                    row,
                    records_per_s=row.records_per_s + records / elapsed_s,
                    busy=row.busy + busy_s / elapsed_s / len(answers),
                )
    return tuple(rows.values())


def bin_tables(answers: Iterable[WorkerStatus]) -> tuple[BinTable, ...]:
    """Each operator on bins: who owns them by the first worker's table, and the keys in each, on all workers."""
    first: dict[str, BinTable] = {}
    keys: dict[str, Counter[BinId]] = {}
    for answer in answers:
        for operator in answer.bins:
            first.setdefault(operator.path, operator)
            keys.setdefault(operator.path, Counter()).update(operator.keys)
    return tuple(replace(operator, keys=dict(keys[path])) for path, operator in first.items())
