"""One change of the membership at a time: the coordinator, one of the members, grants turns in the order of asking.

When the coordinator leaves, the next one takes over. For a moment workers may differ about who that is, so a worker
that is asked before it knows keeps the question; and the leaver passes on what it was asked.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from framework.membership.effects import Send
from framework.membership.members import WorkerId
from framework.membership.messages import Ask, Grant, Queued


@dataclass(slots=True)
class Turns:
    """Whose turn it is, and who waits."""

    current: Ask | None = None
    coordinating: bool = False
    closed: bool = False
    """Whether no more turns are granted: the job is about to end."""
    _waiting: deque[Ask] = field(default_factory=deque)

    def coordinate(self, current: Ask) -> list[Send]:
        """Begin to grant turns; it is the turn of `current`."""
        self.coordinating = True
        self.current = current
        return self._grant()

    def ask(self, ask: Ask) -> list[Send]:
        """Somebody wants a turn."""
        self._waiting.append(ask)
        ahead = len(self._waiting) - (self.current is None)
        queued = [Send(ask.requester, Queued(ask.worker, ahead))] if ahead else []
        return queued + self._grant()

    def done(self, ask: Ask) -> list[Send]:
        """A turn is over, or is no longer wanted."""
        if self.current == ask:
            self.current = None
            return self._grant()
        if ask in self._waiting:
            self._waiting.remove(ask)
        return []

    def hand_over(self, coordinator: WorkerId) -> list[Send]:
        """Let another worker decide about all that wait."""
        self.coordinating = False
        passed_on = [Send(coordinator, ask) for ask in self._waiting]
        self._waiting.clear()
        return passed_on

    def _grant(self) -> list[Send]:
        if self.coordinating and not self.closed and self.current is None and self._waiting:
            self.current = self._waiting.popleft()
            return [Send(self.current.requester, Grant(self.current.worker))]
        return []
