"""Which number stands for which channel: messages come in by number and go to an operator's input or to a scope.

Workers number channels alike because they build alike, but not at the same moment: what comes in for a number that is
not yet given out waits, and what comes in for one that was closed is dropped.
"""

from __future__ import annotations

from collections.abc import Callable

from framework.membership.members import WorkerId
from framework.wire.messages import Data, Progress

ChannelReceiver = Callable[[WorkerId, Data | Progress], None]


class Switchboard:
    """The channels of one worker."""

    def __init__(self) -> None:
        self._next = 0
        self._receivers: dict[int, ChannelReceiver] = {}
        self._early: dict[int, list[tuple[WorkerId, Data | Progress]]] = {}

    def reserve(self) -> int:
        """The number of a new channel."""
        self._next += 1
        return self._next - 1

    def open(self, channel: int, receiver: ChannelReceiver) -> None:
        """Hand what comes in for `channel` to `receiver`, and what came early right away."""
        self._receivers[channel] = receiver
        for sender, message in self._early.pop(channel, ()):
            receiver(sender, message)

    def close(self, channels: range) -> None:
        """Drop what still comes in for these channels."""
        for channel in channels:
            self._receivers.pop(channel, None)
            self._early.pop(channel, None)

    def dispatch(self, sender: WorkerId, message: Data | Progress) -> None:
        """Hand a message to its channel."""
        receiver = self._receivers.get(message.channel)
        if receiver is not None:
            receiver(sender, message)
        elif message.channel >= self._next:
            self._early.setdefault(message.channel, []).append((sender, message))

    def early(self) -> list[tuple[WorkerId, Data | Progress]]:
        """What waits for its channel to be opened."""
        return [arrival for arrivals in self._early.values() for arrival in arrivals]

    @property
    def reserved(self) -> int:
        """How many channels were given out."""
        return self._next
