"""Work that bins have put off until a time: what is due when, and what goes along when a bin moves."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

from routing.bins import BinId


class PendingTimers:
    """Per bin, items with the times that they wait for. The cost of asking is that of the answer.

    With `once`, an item that is put off again until the same time is not kept twice.
    """

    def __init__(self, *, once: bool = False) -> None:
        self._once = once
        self._by_time: dict[int, dict[BinId, list[Any] | dict[Any, None]]] = {}
        self._times_of: dict[BinId, set[int]] = {}
        self._local: dict[int, dict[Any, None]] = {}
        """What belongs to no bin, by the time that it waits for."""
        self._order: list[int] = []
        """Times that something waits, or has waited, for: a heap, each time in it once."""
        self._ordered: set[int] = set()
        self.appeared: set[int] = set()
        """Times that something waits for since the host last looked; it takes a capability for each."""
        self.vanished: set[int] = set()
        """Times that nothing waits for any more since then, because a bin left."""

    def add(self, bin_id: BinId, time: int, item: Any) -> None:
        """Put `item` off until `time`."""
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

    def add_local(self, time: int, item: Any) -> None:
        """Schedule `item` for the end of epoch `time` on this worker, once. It belongs to no bin and does not move."""
        items = self._local.get(time)
        if items is None:
            self._enqueue(time)
            items = self._local[time] = {}
        items[item] = None

    def first(self) -> int | None:
        """The earliest time that something waits for."""
        while self._order and not self.waits_for(self._order[0]):
            self._ordered.remove(heappop(self._order))
        return self._order[0] if self._order else None

    def waits_for(self, time: int) -> bool:
        """Whether something waits for `time`."""
        return time in self._by_time or time in self._local

    def due(self, time: int) -> list[tuple[BinId, list[Any]]]:
        """Take what waits for `time`, by bin."""
        bins = self._by_time.pop(time, {})
        for bin_id in bins:
            self._forget(bin_id, time)
        return [(bin_id, list(items)) for bin_id, items in bins.items()]

    def due_local(self, time: int) -> list[Any]:
        """Take what waits for `time` and belongs to no bin."""
        return list(self._local.pop(time, ()))

    def take(self, bin_id: BinId) -> list[tuple[int, Any]]:
        """Take all that a bin waits for, in order of times: it moves elsewhere."""
        items: list[tuple[int, Any]] = []
        for time in sorted(self._times_of.pop(bin_id, ())):
            bins = self._by_time[time]
            items.extend((time, item) for item in bins.pop(bin_id))
            if not bins:
                del self._by_time[time]
                if time not in self._local:
                    self.vanished.add(time)
        return items

    def install(self, bin_id: BinId, items: Iterable[tuple[int, Any]]) -> None:
        """Take over what a bin waited for elsewhere."""
        for time, item in items:
            self.add(bin_id, time, item)

    def _enqueue(self, time: int) -> None:
        """Note a time that something is about to wait for."""
        if self.waits_for(time):
            return
        self.appeared.add(time)
        if time not in self._ordered:
            heappush(self._order, time)
            self._ordered.add(time)

    def _forget(self, bin_id: BinId, time: int) -> None:
        times = self._times_of[bin_id]
        times.discard(time)
        if not times:
            del self._times_of[bin_id]
