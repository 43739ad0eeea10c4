"""Notices that the machine at the other end of a link is gone, within `SILENCE_S` and a look, on any Linux.

A thread looks twice a second at what the kernel knows of each connection (TCP_INFO), and shuts down the one whose other
end has left everything unanswered for too long. The worker that owns it, which may be in a long call meanwhile, then
reads its end. The thread lives as long as there are links. Other systems have none: their own bounds hold.

A kernel that runs answers: it acknowledges data, and probes of an idle connection (`framework.net.keep_alive`) and of a
closed window, whatever its processes do. So who does not read, or is stopped, is never given up, as with
TCP_USER_TIMEOUT; and since the own kernel goes on as well while the own process is stopped, that is not taken for
silence of others. Nor is a lost packet: several attempts in a row must have failed.

One case takes longer. Before Linux 6.15, probes of a window that has long been closed are up to two minutes apart: if a
machine vanishes whose worker has not read for a while, the next ones must fail first.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass

SILENCE_S = 7.0
LOOK_S = 0.5
ATTEMPTS_MIN = 3
"""Within `SILENCE_S` there are as many on any path whose round trip is below a third of a second."""

_TCP_INFO = struct.Struct("=2xBB4x16xI16x8xII")
"""The beginning of `struct tcp_info` in linux/tcp.h."""


@dataclass(frozen=True, slots=True)
class TcpInfo:
    """What the kernel knows of a connection."""

    retransmissions: int
    """In a row, without an answer; likewise the probes."""
    probes: int
    unacknowledged: int
    """How many segments wait to be acknowledged."""
    data_received_ms: int
    """How long ago data arrived; likewise acknowledgements, also such as answer a probe."""
    acknowledged_ms: int

    @staticmethod
    def of(connection: socket.socket) -> TcpInfo:
        """As of now."""
        return TcpInfo(*_TCP_INFO.unpack(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)))

    @property
    def silence_s(self) -> float:
        """How long ago the other end was last heard."""
        return min(self.data_received_ms, self.acknowledged_ms) / 1000

    def is_gone(self, silence_s: float) -> bool:
        """Whether the other end has left everything unanswered for so long."""
        attempts = self.retransmissions if self.unacknowledged else self.probes
        return attempts >= ATTEMPTS_MIN and self.silence_s >= silence_s


class LinkWatch:
    """Looks after the links of one process."""

    def __init__(self, *, silence_s: float = SILENCE_S, look_s: float = LOOK_S) -> None:
        self._silence_s = silence_s
        self._look_s = look_s
        self._changed = threading.Condition()
        self._links: dict[socket.socket, bool] = {}
        """Whether each has been given up."""
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, connection: socket.socket) -> None:
        """Watch a connection, until it is removed."""
        with self._changed:
            self._links[connection] = False
            if self._thread is None and not self._closed and sys.platform == "linux":
                self._thread = threading.Thread(target=self._run, name="hailer-link-watch", daemon=True)
                self._thread.start()

    def remove(self, connection: socket.socket) -> None:
        """Never touch it again: it is about to be closed."""
        with self._changed:
            del self._links[connection]
            self._changed.notify()

    def gave_up(self, connection: socket.socket) -> bool:
        """Whether it was shut down since its other end is gone."""
        return self._links[connection]

    def close(self) -> None:
        """Look no more. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def look(self) -> None:
        """Give up those that are gone."""
        with self._changed:
            for connection, given_up in self._links.items():
                if not given_up and TcpInfo.of(connection).is_gone(self._silence_s):
                    self._links[connection] = True
                    with suppress(OSError):  # it has ended by itself
                        connection.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        with self._changed:
            while not self._over():
                self.look()
                self._changed.wait_for(self._over, self._look_s)
            self._thread = None

    def _over(self) -> bool:
        return self._closed or not self._links
