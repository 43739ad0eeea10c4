"""One change of the membership at a time: the coordinator, one of the members, grants turns in the order of asking.

When the coordinator leaves, the next one takes over. For a moment workers may differ about who that is, so a worker
that is asked before it knows keeps the question; and the leaver passes on what it was asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from framework.membership.members import WorkerId
from framework.membership.messages import Ask, Grant, Queued

Send = Callable[[WorkerId, Grant | Queued | Ask], None]


@dataclass(slots=True)
class Turns:
    """Whose turn it is, and who waits."""

    send: Send
    current: Ask | None = None
    coordinating: bool = False
    closed: bool = False
    """Whether nobody gets a turn any more: the job is about to end."""
    _waiting: deque[Ask] = field(default_factory=deque)

    def coordinate(self, current: Ask) -> None:
        """Begin to grant turns; it is the turn of `current`."""
        self.coordinating = True
        self.current = current
        self._grant()

    def ask(self, ask: Ask) -> None:
        """Somebody wants a turn."""
        self._waiting.append(ask)
        ahead = len(self._waiting) - (self.current is None)
        if ahead:
            self.send(ask.requester, Queued(ask.worker, ahead))
        self._grant()

    def done(self, ask: Ask) -> None:
        """A turn is over, or is no longer wanted."""
        if self.current == ask:
            self.current = None
            self._grant()
        elif ask in self._waiting:
            self._waiting.remove(ask)

    def hand_over(self, coordinator: WorkerId) -> None:
        """Let another worker decide about all that wait."""
        self.coordinating = False
        while self._waiting:
            self.send(coordinator, self._waiting.popleft())

    def _grant(self) -> None:
        if self.coordinating and not self.closed and self.current is None and self._waiting:
            ask = self._waiting.popleft()
            self.current = ask
            self.send(ask.requester, Grant(ask.worker))
