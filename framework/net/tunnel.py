"""Gives those who need a plain socket one end of an encrypted connection: what a process inherits is a descriptor.

A thread of its own has the `TlsConnection`, which two threads must not use at once, and moves bytes between it and one
end of a socket pair. The holder of the other end sees what it would see of a plain connection: also one side's end
while the other side still speaks, and that nobody reads.
"""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.net.link_socket import LinkSocket

if TYPE_CHECKING:
    from framework.net.tls import TlsConnection

CHUNK_BYTES = 64 * 1024
CHUNKS_MAX = 16
"""How many pieces go one way before the other way has its turn."""


class Tunnel:
    """One encrypted connection, and the plain socket in front of it, which its user closes."""

    def __init__(self, connection: TlsConnection) -> None:
        self.end, self._inner = socket.socketpair()
        self._connection = connection
        for one in (connection, self._inner):
            one.setblocking(False)
        self._drained = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tunnel", daemon=True)

    def start(self) -> None:
        """Move bytes from now on. Not before a fork: threads do not come along."""
        self._thread.start()

    def drain(self, timeout_s: float) -> bool:
        """Wait until all that was written to the plain socket is sent, and that is closed; whether it came to that."""
        return self._drained.wait(timeout_s)

    def _run(self) -> None:
        out, back = _Direction(self._inner, self._connection), _Direction(self._connection, self._inner)
        try:
            with selectors.DefaultSelector() as selector:
                while not (out.ended and back.ended):
                    more = [direction.move() for direction in (out, back) if not direction.ended]
                    if out.ended:
                        self._drained.set()
                    for connection in (self._inner, self._connection):
                        _watch(selector, connection, out.events(connection) | back.events(connection))
                    if selector.get_map():
                        selector.select(0 if any(more) else None)
        except OSError:
            pass  # the user of the plain socket sees it end
        finally:
            self._drained.set()
            self._inner.close()
            self._connection.close()


@dataclass(slots=True, eq=False)
class _Direction:
    source: LinkSocket
    sink: LinkSocket
    buffer: bytes = b""
    ended: bool = False

    def move(self) -> bool:
        """Move what can be moved now; whether there may be more."""
        try:
            for _ in range(CHUNKS_MAX):
                if not self.buffer:
                    self.buffer = self.source.recv(CHUNK_BYTES)
                if not self.buffer:
                    self.ended = True
                    with suppress(OSError):
                        self.sink.shutdown(socket.SHUT_WR)
                    return False
                self.buffer = self.buffer[self.sink.send(self.buffer) :]
        except BlockingIOError:
            return False
        return True

    def events(self, connection: LinkSocket) -> int:
        """What this direction waits for at one of the two."""
        if not self.ended and self.buffer and connection is self.sink:
            return selectors.EVENT_WRITE
        if not self.ended and not self.buffer and connection is self.source:
            return selectors.EVENT_READ
        return 0


def _watch(selector: selectors.BaseSelector, connection: LinkSocket, events: int) -> None:
    watched = connection in selector.get_map()
    if events and watched:
        selector.modify(connection, events)
    elif events:
        selector.register(connection, events)
    elif watched:
        selector.unregister(connection)
