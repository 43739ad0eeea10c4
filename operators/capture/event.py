"""A stream as a sequence of events, and the seams to what keeps them.

A captured stream starts with the least time as its frontier. Each `ProgressEvent` says how the frontier changed, each
`MessagesEvent` what came at a time; a frontier without times is the end. A reader that applies the events in
their order never sees a record at a time that the frontier has passed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from framework.progress.order import Time
from framework.wire.container import Container


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """Times entered (+1) or left (-1) the frontier."""

    changes: tuple[tuple[Time, int], ...]


@dataclass(frozen=True, slots=True)
class MessagesEvent:
    """Records came at a time."""

    time: Time
    container: Container


CapturedEvent: TypeAlias = ProgressEvent | MessagesEvent


class EventSink(Protocol):
    """Where `capture` puts events: an `EventLog`, an `EventWriter`."""

    def push(self, event: CapturedEvent) -> None:
        """Keep one more event."""

    def close(self) -> None:
        """Take note that no more events come."""


class EventCursor(Protocol):
    """One reader's position in a sequence of events."""

    def next_event(self) -> CapturedEvent | None:
        """The next event, or None if there is none now."""

    @property
    def ended(self) -> bool:
        """Whether nothing follows, even if the frontier still has times."""

    def close(self) -> None:
        """Read no more."""


class EventSource(Protocol):
    """Where `replay` takes events from: an `EventLog`, an `EventReader`."""

    def open(self, wake: Callable[[], None]) -> EventCursor:
        """Start reading; `wake` is called, from any thread, when there is more after there was none."""
