"""How long the phases of a join take, for the log and for readers of events."""

from __future__ import annotations

from itertools import pairwise

from framework.events import Events, JoinPhase
from framework.membership.effects import Phase


class JoinPhases:
    """The phases that one join has gone through so far."""

    def __init__(self, events: Events) -> None:
        self.inherited_bytes = 0
        """How much of progress the joiner was told."""
        self._events = events
        self._entered: list[tuple[Phase, float]] = []

    def enter(self, phase: Phase) -> None:
        """A phase begins, and the one before it is over."""
        now_s = self._events.clock()
        if self._entered and self._events.listening:
            last, began_s = self._entered[-1]
            self._events.emit(JoinPhase(str(last.value), now_s - began_s))
        self._entered.append((phase, now_s))

    def durations_s(self) -> dict[str, float]:
        """How long each phase took."""
        return {str(phase.value): end_s - began_s for (phase, began_s), (_, end_s) in pairwise(self._entered)}

    def summary(self) -> str:
        """In words, once the join is over."""
        spent = [f"{name} {1000 * spent_s:.1f}" for name, spent_s in self.durations_s().items()]
        total_ms = 1000 * (self._entered[-1][1] - self._entered[0][1])
        return f"{total_ms:.1f} ms: {', '.join(spent)}; {self.inherited_bytes:,} bytes of progress state"
