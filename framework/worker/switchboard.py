"""Where each channel ends: messages come in by number, records for an operator's input and progress for a scope.

Workers number channels alike because they build alike, but not at the same moment: what comes in for a number that is
not yet given out waits, and what comes in for one that was closed is dropped.
"""

from __future__ import annotations

from framework.dataflow.handle import InputHandle
from framework.events import Events, MessageReceived
from framework.membership.members import WorkerId
from framework.progress.subgraph import Subgraph
from framework.wire.messages import Data, Progress


class Switchboard:
    """The channels of one worker."""

    def __init__(self, events: Events) -> None:
        self.ends: dict[int, InputHandle | Subgraph] = {}
        """Of channels that are open."""
        self._events = events
        self._next = 0
        self._early: dict[int, list[tuple[WorkerId, Data | Progress]]] = {}

    def reserve(self) -> int:
        """The number of a new channel."""
        self._next += 1
        return self._next - 1

    def open(self, channel: int, end: InputHandle | Subgraph) -> None:
        """Hand what comes in for `channel` to `end`, and what came early right away."""
        self.ends[channel] = end
        for sender, message in self._early.pop(channel, ()):
            self._deliver(end, sender, message)

    def close(self, channels: range) -> None:
        """Drop what still comes in for these channels."""
        for channel in channels:
            self.ends.pop(channel, None)
            self._early.pop(channel, None)

    def dispatch(self, sender: WorkerId, message: Data | Progress) -> None:
        """Hand a message to its channel."""
        end = self.ends.get(message.channel)
        if end is not None:
            self._deliver(end, sender, message)
        elif message.channel >= self._next:
            self._early.setdefault(message.channel, []).append((sender, message))

    def early(self) -> list[tuple[WorkerId, Data | Progress]]:
        """What waits for its channel to be opened."""
        return [arrival for arrivals in self._early.values() for arrival in arrivals]

    @property
    def reserved(self) -> int:
        """How many channels were given out."""
        return self._next

    def _deliver(self, end: InputHandle | Subgraph, sender: WorkerId, message: Data | Progress) -> None:
        if isinstance(message, Data):
            assert isinstance(end, InputHandle), message
            end.push(message.time, message.container)
            if self._events.listening:
                self._events.emit(MessageReceived(message.channel, sender, len(message.container)))
        else:
            assert isinstance(end, Subgraph), message
            end.receive(sender, message.sequence, message.changes)
