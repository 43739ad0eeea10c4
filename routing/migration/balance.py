"""Which worker should own which bin, so that the load is balanced and as little as possible moves.

The loads may be anything that adds up: records, bytes, seconds. They are facts from elsewhere; how to get to the target
is `routing.migration.strategies`' to say.

First the bins of workers that leave are assigned, the heaviest first, each to the least loaded worker. Then, while
some worker has more than the least loaded one by more than the tolerance, the heaviest that can gives it a bin that
narrows the gap between the two: the heaviest bin that takes neither past the mean of those that can, else the lightest.

At the end, for every worker, its load exceeds the least loaded one's by no more than

- the tolerance, a fraction of the mean load, or else
- its own lightest bin that has a load at all: one more move would only swap the two workers' parts.

Each move lowers the sum of the squares of the loads, so it ends. With bins that all weigh the same this is the least
number of moves that there can be; with others finding it is NP-hard.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from math import lcm
from operator import itemgetter

from framework.membership.members import WorkerId
from routing.bins import BinId
from routing.errors import PlanInvalid
from routing.migration.plan import check_sizes


def balance(
    current: Sequence[WorkerId],
    workers: Collection[WorkerId],
    loads: Mapping[BinId, float] | None = None,
    *,
    tolerance: float = 0.05,
) -> list[WorkerId]:
    """The owner that each bin should have.

    `workers` are those that may own bins: one that joins and has none is among them, one that leaves is not. Bins that
    `loads` does not name have none. Without `loads` the workers get the same number of bins, give or take one.

    >>> joins, leaves = balance([0, 0, 0, 0, 0, 0], [0, 7]), balance([0, 1, 2, 0, 1, 2], [0, 1])
    >>> joins, leaves
    ([0, 0, 0, 7, 7, 7], [0, 1, 0, 0, 1, 1])
    """
    if not workers:
        raise PlanInvalid("no workers are left to own bins; name at least one")
    if not tolerance >= 0:
        raise PlanInvalid(f"a tolerance of {tolerance} cannot be; give a fraction of the mean load, 0 or more")
    check_sizes(len(current), loads=loads)
    if loads is None:
        loads, tolerance = {BinId(index): 1 for index in range(len(current))}, 0
    weights = _whole(loads)
    parts = {worker: _Part(worker) for worker in sorted(workers)}
    homeless: list[tuple[int, BinId]] = []
    for index, owner in enumerate(current):
        weighed = weights.get(BinId(index), 0), BinId(index)
        if owner in parts:
            parts[owner].take(weighed)
        else:
            homeless.append(weighed)
    _assign(homeless, parts)
    _level(list(parts.values()), tolerance)
    target = list(current)
    for part in parts.values():
        for _, bin_id in part.bins:
            target[bin_id] = part.worker
    return target


def spread(current: Sequence[WorkerId], workers: Collection[WorkerId], costs: Mapping[BinId, float]) -> list[WorkerId]:
    """The owner that each bin should have: what bins cost is balanced, and so is the number of those that cost nothing.

    A bin without keys may have some tomorrow.

    >>> spread([0, 0, 0, 0], [0, 1], {BinId(0): 2.0, BinId(1): 2.0})
    [0, 1, 0, 1]
    """
    target = balance(current, workers, costs)
    light = [index for index in range(len(target)) if not costs.get(BinId(index))]
    for index, owner in zip(light, balance([current[index] for index in light], workers), strict=True):
        target[index] = owner
    return target


def rehome(current: Sequence[WorkerId], workers: Collection[WorkerId], costs: Mapping[BinId, float]) -> list[WorkerId]:
    """The same owners, but for bins of workers that are not among `workers`: those go where the load is least."""
    shares = spread(current, workers, costs)
    return [owner if owner in workers else other for owner, other in zip(current, shares, strict=True)]


@dataclass(slots=True)
class _Part:
    """One worker's bins by ascending load, and the sum of their loads."""

    worker: WorkerId
    bins: list[tuple[int, BinId]] = field(default_factory=list)
    load: int = 0

    def take(self, weighed: tuple[int, BinId]) -> None:
        insort(self.bins, weighed)
        self.load += weighed[0]

    def give(self, index: int, other: _Part) -> None:
        weighed = self.bins.pop(index)
        self.load -= weighed[0]
        other.take(weighed)

    def candidate(self, *, ideal: int, gap: int) -> int | None:
        """The index of the heaviest bin up to `ideal`, else of the lightest below `gap`; it has a load."""
        lightest = bisect_right(self.bins, 0, key=_LOAD)
        index = max(lightest, bisect_right(self.bins, ideal, key=_LOAD) - 1)
        return index if index < len(self.bins) and self.bins[index][0] < gap else None


_LOAD = itemgetter(0)


def _whole(loads: Mapping[BinId, float]) -> dict[BinId, int]:
    """The same loads in a unit that makes all of them whole numbers: sums of floats would depend on their order."""
    ratios = {bin_id: load.as_integer_ratio() for bin_id, load in loads.items()}
    unit = lcm(*(denominator for _, denominator in ratios.values()))
    return {bin_id: numerator * (unit // denominator) for bin_id, (numerator, denominator) in ratios.items()}


def _assign(homeless: list[tuple[int, BinId]], parts: Mapping[WorkerId, _Part]) -> None:
    """Give each bin to the worker with the least load; bins without a load, to the one with the fewest bins."""
    loaded = [(-load, bin_id) for load, bin_id in homeless if load]
    by_load = [(part.load, len(part.bins), part.worker) for part in parts.values()]
    heapify(by_load)
    for negative, bin_id in sorted(loaded):
        part = parts[by_load[0][2]]
        part.take((-negative, bin_id))
        heapreplace(by_load, (part.load, len(part.bins), part.worker))
    by_count = [(len(part.bins), part.load, part.worker) for part in parts.values()]
    heapify(by_count)
    for load, bin_id in homeless:
        if not load:
            part = parts[by_count[0][2]]
            part.take((0, bin_id))
            heapreplace(by_count, (len(part.bins), part.load, part.worker))


def _level(parts: list[_Part], tolerance: float) -> None:
    """Move bins to the least loaded worker while that helps."""
    total, number = sum(part.load for part in parts), len(parts)
    numerator, denominator = tolerance.as_integer_ratio()
    moved = True
    while moved:
        moved = False
        parts.sort(key=lambda part: (part.load, part.worker))
        lightest = parts[0]
        rest, heads = total, number
        for part in reversed(parts):
            gap = part.load - lightest.load
            if gap * number * denominator <= numerator * total:
                break
            ideal = min(part.load * heads - rest, rest - lightest.load * heads) // heads
            index = part.candidate(ideal=ideal, gap=gap)
            if index is not None:
                part.give(index, lightest)
                moved = True
                break
            # It keeps what it has, so the others have only the rest to share.
            rest, heads = rest - part.load, heads - 1
