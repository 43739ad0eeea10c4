"""Events in memory: written by one dataflow, read by others, also in other threads and while it is written."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from operators.capture.event import CapturedEvent
from operators.errors import EventsForgotten

TRIM_EVENTS = 1024
"""Events that all readers have passed are dropped in runs of this length."""


class EventLog:
    """The events of one captured stream on one worker.

    It keeps all events, so that readers can be opened at any time. With `retain=False` it drops what all readers so far
    have passed, as an endless stream needs; all readers must then be opened before that.
    """

    def __init__(self, *, retain: bool = True) -> None:
        self._retain = retain
        self._lock = Lock()
        self._events: list[CapturedEvent] = []
        self._forgotten = 0
        self._readers: list[LogReader] = []

    def push(self, event: CapturedEvent) -> None:
        """Keep one more event, and wake the readers."""
        with self._lock:
            self._events.append(event)
            readers = list(self._readers)
        for reader in readers:
            reader.wake()

    def close(self) -> None:
        """Nothing to do: the events say by themselves whether they are complete."""

    def events(self) -> list[CapturedEvent]:
        """The events that it holds."""
        with self._lock:
            return list(self._events)

    def open(self, wake: Callable[[], None]) -> LogReader:
        """Start reading at the first event."""
        with self._lock:
            if self._forgotten:
                raise EventsForgotten(
                    f"this event log has dropped its first {self._forgotten} events, which others read; open all "
                    f"readers before the stream flows, or keep everything with retain=True"
                )
            reader = LogReader(self, wake)
            self._readers.append(reader)
            return reader

    def read_at(self, position: int) -> CapturedEvent | None:
        """The event with this number, if it is there."""
        with self._lock:
            index = position - self._forgotten
            return self._events[index] if index < len(self._events) else None

    def trim(self) -> None:
        """Drop the events that all readers have passed."""
        with self._lock:
            if self._retain or not self._readers:
                return
            passed = min(reader.position for reader in self._readers) - self._forgotten
            if passed >= TRIM_EVENTS:
                del self._events[:passed]
                self._forgotten += passed

    def leave(self, reader: LogReader) -> None:
        """Expect no more reading from `reader`."""
        with self._lock:
            if reader in self._readers:
                self._readers.remove(reader)


class LogReader:
    """One reader's position in an event log."""

    ended = False

    def __init__(self, log: EventLog, wake: Callable[[], None]) -> None:
        self.wake = wake
        self.position = 0
        self._log = log

    def next_event(self) -> CapturedEvent | None:
        """The next event, or None if there is none now."""
        event = self._log.read_at(self.position)
        if event is not None:
            self.position += 1
            if self.position % TRIM_EVENTS == 0:
                self._log.trim()
        return event

    def close(self) -> None:
        """Read no more."""
        self._log.leave(self)
