"""The timers of one stateful operator on one worker: what is due when, and what leaves with a bin that moves.

`S` asks for the earliest time and for what is due, and holds a capability for every time that has a timer. Users set
timers through `Timers.set` (per key) or `Bin.put_off` (per bin).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any

from routing.bins import BinId
from routing.state.nan_key import one_nan


class PendingTimers:
    """Items by time and bin. An answer costs what is in it, not what is set.

    With `once`, an item that is set again for the same time is kept once.
    """

    def __init__(self, *, once: bool = False) -> None:
        self._once = once
        self._by_time: dict[int, dict[BinId, list[Any] | dict[Any, None]]] = {}
        self._times_of: dict[BinId, set[int]] = {}
        self._local: dict[int, dict[Any, None]] = {}
        """Items of no bin, by time."""
        self._order: list[int] = []
        """A heap of the times that have, or have had, a timer; each is in it once."""
        self._ordered: set[int] = set()
        self.new_times: set[int] = set()
        """Times that have got their first timer since S last looked; it takes a capability for each."""
        self.emptied_times: set[int] = set()
        """Times that have lost their last timer since then, because a bin left."""

    def set(self, bin_id: BinId, time: int, item: Any) -> None:
        """Have `item` due at `time`."""
        bins = self._by_time.get(time)
        if bins is None:
            self._enqueue(time)
            bins = self._by_time[time] = {}
        items = bins.get(bin_id)
        if items is None:
            items = bins[bin_id] = {} if self._once else []
            self._times_of.setdefault(bin_id, set()).add(time)
        if isinstance(items, dict):
            items[item] = None
        else:
            items.append(item)

    def set_local(self, time: int, item: Any) -> None:
        """Have `item` due at `time` on this worker, once. It belongs to no bin and does not move."""
        items = self._local.get(time)
        if items is None:
            self._enqueue(time)
            items = self._local[time] = {}
        items[item] = None

    def first(self) -> int | None:
        """The earliest time that has a timer."""
        while self._order and not self.any_at(self._order[0]):
            self._ordered.remove(heappop(self._order))
        return self._order[0] if self._order else None

    def any_at(self, time: int) -> bool:
        """Whether `time` has a timer."""
        return time in self._by_time or time in self._local

    def pop_due(self, time: int) -> list[tuple[BinId, list[Any]]]:
        """Take the items that are due at `time`, by bin."""
        bins = self._by_time.pop(time, {})
        for bin_id in bins:
            self._forget(bin_id, time)
        return [(bin_id, list(items)) for bin_id, items in bins.items()]

    def pop_due_local(self, time: int) -> list[Any]:
        """Take the items that are due at `time` and belong to no bin."""
        return list(self._local.pop(time, ()))

    def extract(self, bin_id: BinId) -> list[tuple[int, Any]]:
        """Take all items of a bin, in order of times: it moves elsewhere."""
        items = list(self.of(bin_id))
        for time in self._times_of.pop(bin_id, ()):
            bins = self._by_time[time]
            del bins[bin_id]
            if not bins:
                del self._by_time[time]
                if time not in self._local:
                    self.emptied_times.add(time)
        return items

    def of(self, bin_id: BinId) -> Iterator[tuple[int, Any]]:
        """All items of a bin, in order of times."""
        for time in sorted(self._times_of.get(bin_id, ())):
            yield from [(time, item) for item in self._by_time[time][bin_id]]

    def install(self, bin_id: BinId, items: Iterable[tuple[int, Any]]) -> None:
        """Set what `extract` took elsewhere."""
        for time, item in items:
            self.set(bin_id, time, one_nan(item) if self._once else item)

    def _enqueue(self, time: int) -> None:
        """Note a time that is about to get a timer."""
        if self.any_at(time):
            return
        self.new_times.add(time)
        if time not in self._ordered:
            heappush(self._order, time)
            self._ordered.add(time)

    def _forget(self, bin_id: BinId, time: int) -> None:
        times = self._times_of[bin_id]
        times.discard(time)
        if not times:
            del self._times_of[bin_id]
