"""How to get from the present owners to others: the ways to cut the same moves into steps.

=============  ==================================================================================================
all_at_once    one step. The shortest in time, and everything that moves stalls for all of it.
fluid          a step per bin. The shortest stall, and the longest in time.
batched        steps of a bounded number of bins or bytes.
optimized      steps in which no worker sends or receives more than one bin, and as few of these as there can be.
=============  ==================================================================================================

Given the heat of the bins (how much work each gets), the hottest go first, so that an overloaded worker is relieved by
the first steps. Given their sizes, `batched` and `optimized` keep a step below a number of bytes, unless it is a single
bin that is larger. The target is `routing.migration.balance`'s to choose, or the user's.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from framework.membership.members import WorkerId
from routing.bins import BinId
from routing.errors import PlanInvalid
from routing.migration.matching import maximum_matching
from routing.migration.plan import Plan, Step, Transfer, check_sizes

_Lane = tuple[WorkerId, WorkerId]
"""A sender and a receiver."""


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The owner of each bin now and then, and what is known about the bins: those that are missing count as 0."""

    current: Sequence[WorkerId]
    target: Sequence[WorkerId]
    state_bytes: Mapping[BinId, int] | None = None
    heat: Mapping[BinId, float] | None = None

    def __post_init__(self) -> None:
        if len(self.current) != len(self.target):
            raise PlanInvalid(
                f"there are {len(self.current)} bins, but a target for {len(self.target)}; name an owner for each bin"
            )
        check_sizes(len(self.current), state_bytes=self.state_bytes, heat=self.heat)

    def transfers(self) -> list[Transfer]:
        """What has to move: the hottest first, else by ascending bin."""
        sizes = self.state_bytes or {}
        transfers = [
            Transfer(BinId(index), source, target, sizes.get(BinId(index), 0))
            for index, (source, target) in enumerate(zip(self.current, self.target, strict=True))
            if source != target
        ]
        return sorted(transfers, key=self.coldness)

    def coldness(self, transfer: Transfer) -> float:
        """Ascends from the hottest to the coldest."""
        return -self.heat.get(transfer.bin_id, 0) if self.heat else 0


Strategy = Callable[[Reassignment], Plan]
"""A way to cut moves into steps."""


def all_at_once(change: Reassignment) -> Plan:
    """Everything in one step."""
    transfers = tuple(change.transfers())
    return Plan((Step(transfers),) if transfers else ())


def fluid(change: Reassignment) -> Plan:
    """One bin per step."""
    return Plan(tuple(Step((transfer,)) for transfer in change.transfers()))


def batched(change: Reassignment, *, bins_max: int | None = None, step_bytes_max: int | None = None) -> Plan:
    """Steps of at most `bins_max` bins and `step_bytes_max` bytes, filled in order."""
    if bins_max is None and step_bytes_max is None:
        raise PlanInvalid("a batched plan needs a bound on its steps; give `bins_max`, `step_bytes_max` or both")
    _check_bounds(bins_max=bins_max, step_bytes_max=step_bytes_max)
    return Plan(tuple(_split(change.transfers(), bins_max, step_bytes_max)))


def optimized(change: Reassignment, *, step_bytes_max: int | None = None) -> Plan:
    """Steps in which no worker sends twice or receives twice: as many bins at once as the workers allow.

    A worker that sends or receives n bins needs n steps. The worker with the most sets the number of steps, and that
    many always suffice (Kőnig 1916: a bipartite multigraph of degree n splits into n matchings). A bound on bytes
    splits steps further.
    """
    _check_bounds(step_bytes_max=step_bytes_max)
    lanes: dict[_Lane, deque[Transfer]] = {}
    for transfer in change.transfers():
        lanes.setdefault((transfer.source, transfer.target), deque()).append(transfer)
    rounds = [
        sorted((lanes[lane].popleft() for lane in matching if lanes.get(lane)), key=change.coldness)
        for matching in _matchings(Counter({lane: len(waiting) for lane, waiting in lanes.items()}))
    ]
    rounds.sort(key=lambda transfers: change.coldness(transfers[0]))
    return Plan(tuple(step for transfers in rounds for step in _split(transfers, None, step_bytes_max)))


def _check_bounds(**bounds: int | None) -> None:
    for name, bound in bounds.items():
        if bound is not None and bound < 1:
            raise PlanInvalid(f"`{name}` is {bound}, but a step moves at least one bin; give 1 or more, or None")


def _split(transfers: Iterable[Transfer], bins_max: int | None, step_bytes_max: int | None) -> Iterator[Step]:
    """Cut into steps, each as long as the bounds allow, and with at least one bin."""
    step: list[Transfer] = []
    step_bytes = 0
    for transfer in transfers:
        full = bins_max is not None and len(step) == bins_max
        heavy = step_bytes_max is not None and step_bytes + transfer.state_bytes > step_bytes_max
        if step and (full or heavy):
            yield Step(tuple(step))
            step, step_bytes = [], 0
        step.append(transfer)
        step_bytes += transfer.state_bytes
    if step:
        yield Step(tuple(step))


def _matchings(lanes: Counter[_Lane]) -> Iterator[list[_Lane]]:
    """Split a bipartite multigraph of senders and receivers into as many matchings as its largest degree.

    Padded so that every vertex has the same degree, it has a perfect matching, and still one when that is taken away. A
    vertex of the largest degree has no padding: each matching has at least one true lane.
    """
    padded = _pad(lanes)
    edges: dict[WorkerId, list[WorkerId]] = {}
    for sender, receiver in sorted(padded):
        edges.setdefault(sender, []).append(receiver)
    matching: dict[WorkerId, WorkerId] = {}
    while padded:
        matching = maximum_matching(edges, matching)
        assert len(matching) == len(edges), f"{len(matching)} of {len(edges)} senders matched in a regular graph"
        taken = list(matching.items())
        times = min(padded[lane] for lane in taken)
        for sender, receiver in taken:
            padded[sender, receiver] -= times
            if not padded[sender, receiver]:
                del padded[sender, receiver], matching[sender]
                edges[sender].remove(receiver)
        for _ in range(times):
            yield taken


def _pad(lanes: Counter[_Lane]) -> Counter[_Lane]:
    """The same multigraph with lanes added until every sender and receiver has the largest degree.

    Padding never appears in a plan: where it doubles a true lane, the true one is used first; where there are fewer
    workers on one side, negative numbers stand for the missing ones.
    """
    sends: Counter[WorkerId] = Counter()
    receives: Counter[WorkerId] = Counter()
    for (sender, receiver), count in lanes.items():
        sends[sender] += count
        receives[receiver] += count
    degree = max([*sends.values(), *receives.values()], default=0)
    for side in (sends, receives):
        for missing in range(max(len(sends), len(receives)) - len(side)):
            side[WorkerId(-1 - missing)] = 0
    padded = lanes.copy()
    room = deque(sorted((receiver, degree - count) for receiver, count in receives.items() if count < degree))
    for sender in sorted(sends):
        lacking = degree - sends[sender]
        while lacking:
            receiver, free = room.popleft()
            taken = min(lacking, free)
            padded[sender, receiver] += taken
            lacking -= taken
            if free > taken:
                room.appendleft((receiver, free - taken))
    return padded
