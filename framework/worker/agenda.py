"""What a worker has been asked to do later: after a while, from another thread, or once links are clear.

The clock is an argument; other threads only append to a deque.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

Action = Callable[[], None]


class Agenda:
    """Actions that wait for their moment."""

    def __init__(self) -> None:
        self._from_threads: deque[Action] = deque()
        self._timers: list[tuple[float, int, Action]] = []
        self._timers_set = 0
        self._when_clear: list[Action] = []

    def from_thread(self, action: Action) -> None:
        """Run `action` at the next opportunity; the one method that other threads may call."""
        self._from_threads.append(action)

    def at(self, when_s: float, action: Action) -> None:
        """Run `action` once the clock shows `when_s`."""
        heappush(self._timers, (when_s, self._timers_set, action))
        self._timers_set += 1

    def when_clear(self, action: Action) -> None:
        """Run `action` once links are not congested."""
        self._when_clear.append(action)

    def run(self, now_s: float, congested: bool) -> None:
        """Run what is due."""
        while self._from_threads:
            self._from_threads.popleft()()
        while self._timers and self._timers[0][0] <= now_s:
            heappop(self._timers)[2]()
        if self._when_clear and not congested:
            actions, self._when_clear = self._when_clear, []
            for action in actions:
                action()

    def due_at_s(self) -> float | None:
        """When the next timer is due."""
        return self._timers[0][0] if self._timers else None

    def urgent(self) -> bool:
        """Whether another thread asked for something."""
        return bool(self._from_threads)

    def waits_for_clear(self) -> bool:
        """Whether something waits for links to clear."""
        return bool(self._when_clear)
