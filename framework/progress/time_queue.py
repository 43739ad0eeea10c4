"""Times that wait, earliest first, each until it is ready."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from framework.progress.order import Time, linear_key


class TimeQueue:
    """Times in a linear order that extends their own."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[tuple[int, ...], Time]] = []

    def add(self, time: Time) -> None:
        """Let a time wait."""
        heappush(self._entries, (linear_key(time), time))

    def take(self, ready: Callable[[Time], bool]) -> Iterator[Time]:
        """Take out the times that are ready; if an earlier one is not, no later epoch is.

        Others may be added meanwhile. In a partial order a later key may be ready before an earlier one.
        """
        aside: list[tuple[tuple[int, ...], Time]] = []
        try:
            while self._entries:
                entry = heappop(self._entries)
                time = entry[1]
                if ready(time):
                    yield time
                    continue
                aside.append(entry)
                if isinstance(time, int):
                    break
        finally:
            for entry in aside:
                heappush(self._entries, entry)

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()
