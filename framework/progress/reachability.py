"""The reachability tracker: from where times are to where they could still turn up.

Two counted antichains per location. *Pointstamps* count what is there: messages at an input port, capabilities at
an output port. *Implications* count, for a time, in how many ways pointstamps anywhere could result in it here; their
frontier is the location's frontier. `update` notes changes of pointstamps, `propagate` carries their effect through
the graph: only changes of a frontier travel, least time first, so the work is proportional to what changes.

By hand, on `input -> probe`, whose locations are numbered `input.source`, `probe.target`; with one capability at the
input, first for epoch 0 and then for epoch 1:

>>> from framework.progress.domain import Domain
>>> from framework.progress.graph import Graph, Node
>>> from framework.progress.location import Source, Target
>>> nodes = [Node("outside", 0, 0, []), Node("input", 0, 1, []), Node("probe", 1, 0, [[]])]
>>> tracker = Tracker(Graph(Domain(), nodes, {Source(1, 0): [Target(2, 0)]}).compile())
>>> tracker.update(0, 0, +1)
>>> tracker.propagate()  # epoch 0 enters both frontiers; the scope has no outputs
([(0, 0, 1), (1, 0, 1)], [])
>>> tracker.update(0, 1, +1)
>>> tracker.update(0, 0, -1)
>>> tracker.propagate()  # at both, epoch 0 leaves and epoch 1 enters
([(0, 0, -1), (1, 0, -1), (0, 1, 1), (1, 1, 1)], [])
"""

from __future__ import annotations

from heapq import heappop, heappush

from framework.progress.antichain import MutableAntichain, mutable_antichain
from framework.progress.change_batch import ChangeBatch
from framework.progress.graph import Compiled
from framework.progress.order import EPOCH_MAX, Time, linear_key
from framework.progress.summary import results_in

FrontierChange = tuple[int, Time, int]
"""A location, and a time that enters (+1) or leaves (-1) its frontier."""


class Tracker:
    """Pointstamps and frontiers of all locations of one scope, as one worker sees them."""

    def __init__(self, compiled: Compiled) -> None:
        domain = compiled.domain
        self._successors = compiled.successors
        self._to_outputs = compiled.to_outputs
        self._pending: ChangeBatch[tuple[int, Time]] = ChangeBatch()
        self._pointstamps: list[MutableAntichain] = [mutable_antichain(domain) for _ in compiled.locations]
        self._implications: list[MutableAntichain] = [mutable_antichain(domain) for _ in compiled.locations]
        self._spread = self._spread_epochs if domain.depth == 0 else self._spread_products

    def update(self, location: int, time: Time, delta: int) -> None:
        """Note that `delta` more pointstamps are at `location`; `propagate` makes it count."""
        self._pending.update((location, time), delta)

    def propagate(self) -> tuple[list[FrontierChange], list[tuple[int, Time, int]]]:
        """Carry noted changes through the graph.

        Returns how the frontiers of all locations changed, and how those times did that pointstamps within the scope
        could result in at its outputs, as (output port, time, change of count).
        """
        outputs: list[tuple[int, Time, int]] = []
        changes: list[FrontierChange] = []
        for (location, time), delta in self._pending.drain():
            for changed, diff in self._pointstamps[location].update(time, delta):
                changes.append((location, changed, diff))
                for port, summaries in self._to_outputs[location]:
                    for summary in summaries:
                        result = results_in(summary, changed)
                        if result is not None:
                            outputs.append((port, result, diff))
        return self._spread(changes), outputs

    def _spread_epochs(self, changes: list[FrontierChange]) -> list[FrontierChange]:
        """`_spread_products` for integers: summaries are added, times are their own keys. Hot path."""
        worklist: list[tuple[int, int, int]] = []
        for location, epoch, diff in changes:
            assert isinstance(epoch, int), epoch
            heappush(worklist, (epoch, location, diff))
        pushed: list[FrontierChange] = []
        implications, successors = self._implications, self._successors
        while worklist:
            time, location, diff = heappop(worklist)
            while worklist and worklist[0][0] == time and worklist[0][1] == location:
                diff += heappop(worklist)[2]
            if not diff:
                continue
            for changed, way in implications[location].update(time, diff):
                pushed.append((location, changed, way))
                for follower, summary in successors[location]:
                    result = changed + summary  # type: ignore[operator]
                    if result <= EPOCH_MAX:
                        heappush(worklist, (result, follower, way))
        return pushed

    def _spread_products(self, changes: list[FrontierChange]) -> list[FrontierChange]:
        """Let changes of frontiers change the frontiers that follow, least time first."""
        worklist: list[tuple[tuple[int, ...], int, int, Time]] = []
        for location, time, diff in changes:
            heappush(worklist, (linear_key(time), location, diff, time))
        pushed: list[FrontierChange] = []
        while worklist:
            key, location, diff, time = heappop(worklist)
            while worklist and worklist[0][0] == key and worklist[0][1] == location:
                diff += heappop(worklist)[2]
            if not diff:
                continue
            for changed, way in self._implications[location].update(time, diff):
                pushed.append((location, changed, way))
                for follower, summary in self._successors[location]:
                    result = results_in(summary, changed)
                    if result is not None:
                        heappush(worklist, (linear_key(result), follower, way, result))
        return pushed

    def frontier(self, location: int) -> MutableAntichain:
        """The times that could still turn up at `location`."""
        return self._implications[location]

    def is_global(self, location: int, time: Time) -> bool:
        """Whether a pointstamp here could alone be what holds this time in the frontier."""
        implications = self._implications[location]
        return not implications.less_than(time) and implications.count(time) <= 1

    def tracking_anything(self) -> bool:
        """Whether any pointstamp is known, be its count positive or, for now, negative."""
        return any(map(len, self._pointstamps)) or len(self._pending) > 0

    def pointstamps(self) -> dict[tuple[int, Time], int]:
        """All counts other than zero: the accumulation of every change so far."""
        counts = ChangeBatch(self._pending.items())
        for location, antichain in enumerate(self._pointstamps):
            for time, count in antichain.counts():
                counts.update((location, time), count)
        return dict(counts.items())
