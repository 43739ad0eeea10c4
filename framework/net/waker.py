"""Wakes a thread that sleeps in a selector. Cheap when it does not: setting a flag."""

from __future__ import annotations

import contextlib
import selectors
import socket
from typing import TypeAlias

ReadyKeys: TypeAlias = list[tuple[selectors.SelectorKey, int]]


class Waker:
    """Belongs to the thread that sleeps; only `wake` may be called from elsewhere."""

    __slots__ = ("_asleep", "_awake", "_receiver", "_selector", "_sender")

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        selector.register(self._receiver, selectors.EVENT_READ, self)
        self._asleep = False
        self._awake = False

    def wake(self) -> None:
        """End the current or the next `park`."""
        # The flag goes up before the look at `_asleep`, and the sleeper lies down before it looks at the flag: one
        # of the two sees the other.
        self._awake = True
        if self._asleep:
            with contextlib.suppress(OSError):
                self._sender.send(b"\0")

    def poll(self) -> ReadyKeys:
        """What is ready now. A wake that is due stays due."""
        return [event for event in self._selector.select(0) if event[0].data is not self]

    def park(self, timeout_s: float | None) -> ReadyKeys:
        """Sleep until something is ready, at most `timeout_s`, and return it; the waker's own event is left out."""
        self._asleep = True
        events = self._selector.select(0 if self._awake else timeout_s)
        self._asleep = False
        self._awake = False
        others = [event for event in events if event[0].data is not self]
        if len(others) < len(events):
            with contextlib.suppress(BlockingIOError):
                self._receiver.recv(4096)
        return others

    def close(self) -> None:
        """Release the descriptors. `wake` does nothing from then on."""
        self._asleep = False
        if self._receiver.fileno() >= 0:
            self._selector.unregister(self._receiver)
        self._receiver.close()
        self._sender.close()
