"""What the workers of a job say, put together: pure functions from their answers to the job's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from framework.membership.members import WorkerId
from framework.progress.antichain import Antichain
from operators.admin.errors import BadRequest
from operators.control.job_messages import OperatorRow
from operators.control.worker_messages import BinTable, BlockerState, Frontier, LateRecords, MovableBins, WorkerStatus
from routing.bins import BinId
from routing.load import BinWeight, add_up, costs
from routing.migration.balance import spread
from routing.migration.goals import Pace, plan_of
from routing.migration.plan import Plan
from routing.migration.strategies import Reassignment

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


def late_records(answers: Iterable[WorkerStatus]) -> tuple[LateRecords, ...]:
    """Each operator on windows, with what came too late for it on all workers."""
    rows: dict[str, LateRecords] = {}
    for one in (one for answer in answers for one in answer.late):
        was = rows.get(one.path, replace(one, late=0, records=0))
        rows[one.path] = replace(one, late=was.late + one.late, records=was.records + one.records)
    return tuple(rows.values())


def movable(groups: Sequence[MovableBins], answers: Iterable[Sequence[MovableBins]]) -> list[MovableBins]:
    """The groups of operators as one worker sees them, with what the bins weigh on all."""
    weights: dict[str, list[Mapping[BinId, BinWeight]]] = {}
    for answer in answers:
        for share in answer:
            weights.setdefault(share.group, []).append(share.weights)
    return [replace(group, weights=add_up(weights[group.group])) for group in groups]


def spread_plans(
    groups: Iterable[MovableBins], pace: Pace, joining: Sequence[WorkerId] = (), leaving: Collection[WorkerId] = ()
) -> dict[str, Plan]:
    """How the bins of each group would move if they were spread over those that stay, and come."""
    plans = {}
    for group in groups:
        workers = sorted({*group.eligible, *joining}.difference(leaving))
        plans[group.group] = _plan(group, spread(group.owners, workers, costs(group.weights)), pace)
    return plans


def assign_plans(
    groups: Sequence[MovableBins], owners: Mapping[BinId, WorkerId], name: str | None, pace: Pace, *, complete: bool
) -> dict[str, Plan]:
    """How the bins of a group would move to these owners, which are those of all bins if `complete`."""
    if not groups:
        raise BadRequest(
            "no operator of this job keeps its state on bins that can be moved; `hailer status` lists its operators"
        )
    known = {group.group: group for group in groups}
    if name is None and len(known) > 1:
        raise BadRequest(
            f"the operators of this job are of several groups; say which one, with --group: {', '.join(known)}"
        )
    if name is not None and name not in known:
        raise BadRequest(f"there is no group {name!r} of operators; there are {', '.join(map(repr, known))}")
    group = known[name] if name is not None else groups[0]
    if complete and len(owners) != len(group.owners):
        raise BadRequest(f"there are {len(group.owners)} bins, but {len(owners)} owners; name one for each bin")
    target = list(group.owners)
    for bin_id, worker in owners.items():
        if not 0 <= bin_id < len(target):
            raise BadRequest(f"there is no bin {bin_id}; the bins are 0 to {len(target) - 1}")
        target[bin_id] = worker
    return {group.group: _plan(group, target, pace)}


def _plan(group: MovableBins, target: Sequence[WorkerId], pace: Pace) -> Plan:
    change = Reassignment(
        group.owners,
        target,
        {bin_id: weight.state_bytes for bin_id, weight in group.weights.items()},
        {bin_id: weight.records_per_s for bin_id, weight in group.weights.items()},
    )
    return plan_of(change, pace)
