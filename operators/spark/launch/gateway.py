"""Where processes that run elsewhere find the one that supervises them: a port, a secret, and five lines for each.

A process connects each of its lines through the same handshake as links between workers (`framework.net.acceptor`),
with a secret of this run. In its `Hello`, the source is the number of the process, the generation the number of the
attempt to start it, and the target the line. Each line is let in once, so that a second copy of a process, from a
scheduler that tries again, is turned away with the reason. After the handshake lines are plain sockets.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum

from framework.membership.members import WorkerId
from framework.net.acceptor import Acceptor
from framework.wire.handshake import Hello

CHUNK_BYTES = 65_536
LINE_BYTES_MAX = 1024 * 1024
"""A line of output that is longer is passed on in parts."""

KEEPALIVE_S = 15
"""How long a line is silent before its other end is asked whether it is still there, and then three times as often."""


class StreamKind(IntEnum):
    """What a connection to the hub is for; the first is made first."""

    LIFE = 0
    """To whoever started the process there: `Link` objects; ends when either side has ended."""
    NEWS = 1
    LINK = 2
    OUT = 3
    ERR = 4


def hello_of(process: int, attempt: int, line: StreamKind) -> Hello:
    """What a process says to become one of its lines."""
    return Hello(0, 0, attempt, WorkerId(process), WorkerId(line.value))


class Gateway:
    """Takes the lines of processes from the moment that it is made until `close`."""

    def __init__(self, host: str, secret: bytes) -> None:
        listener = socket.create_server((host, 0), backlog=128)
        self.port: int = listener.getsockname()[1]
        self._arrived: dict[tuple[int, int], dict[StreamKind, socket.socket]] = {}
        """The lines of every attempt that is expected, or was."""
        self._admitted: set[tuple[int, int, int]] = set()
        self._lock = threading.Lock()
        self._acceptor = Acceptor(listener, secret, admit=self._admit, deliver=self._deliver)
        self._acceptor.start()

    def expect(self, process: int, attempt: int) -> None:
        """Let the lines of this attempt in."""
        with self._lock:
            self._arrived[process, attempt] = {}

    def take(self, process: int, attempt: int) -> dict[StreamKind, socket.socket] | None:
        """All lines of an attempt once they are there, to be closed by whoever takes them."""
        with self._lock:
            lines = self._arrived[process, attempt]
            if len(lines) < len(StreamKind):
                return None
            self._arrived[process, attempt] = {}
            return lines

    def forget(self, process: int, attempt: int) -> None:
        """Let this attempt in no more."""
        with self._lock:
            for connection in self._arrived.pop((process, attempt)).values():
                connection.close()

    def close(self) -> None:
        """Let nobody in any more."""
        self._acceptor.close()

    def _admit(self, hello: Hello) -> str | None:
        process, attempt, line = hello.source, hello.generation, hello.target
        with self._lock:
            if (process, attempt) not in self._arrived or line >= len(StreamKind):
                return f"process {process} is not waited for any more"
            if (process, attempt, line) in self._admitted:
                return f"process {process} was started already, and is not started a second time"
            self._admitted.add((process, attempt, line))
        return None

    def _deliver(self, hello: Hello, connection: socket.socket) -> None:
        connection.setblocking(True)
        keep_alive(connection)
        with self._lock:
            lines = self._arrived.get((hello.source, hello.generation))
            if lines is None:
                connection.close()
                return
            lines[StreamKind(hello.target)] = connection


def keep_alive(connection: socket.socket) -> None:
    """Have a connection end when the machine at its other end does not answer any more."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", KEEPALIVE_S), ("TCP_KEEPINTVL", KEEPALIVE_S // 3), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class OutputPump:
    """Passes what comes on a line on to a descriptor, whole lines at a time, in a thread of its own."""

    _writing = threading.Lock()

    def __init__(self, line: socket.socket, descriptor: int | None, usual: int, unread: Callable[[], None]) -> None:
        """Without a descriptor, it is the `usual` one, and stays open; `unread` is called when nobody reads it."""
        self._line = line
        self._descriptor = usual if descriptor is None else descriptor
        self._owned = descriptor is not None
        self._unread = unread
        self._thread = threading.Thread(target=self._run, name="outlet", daemon=True)
        self._thread.start()

    def close(self, within_s: float) -> None:
        """Wait until all is passed on, but no longer than this."""
        self._thread.join(within_s)
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        rest = b""
        try:
            while data := self._receive():
                whole, end, rest = (rest + data).rpartition(b"\n")
                if len(rest) > LINE_BYTES_MAX:
                    whole, end, rest = whole + end, rest, b""
                self._write(whole + end)
            self._write(rest)
        except OSError:
            self._unread()
        finally:
            self._line.close()
            if self._owned:
                os.close(self._descriptor)

    def _receive(self) -> bytes:
        with suppress(ConnectionError):
            return self._line.recv(CHUNK_BYTES)
        return b""

    def _write(self, data: bytes) -> None:
        with self._writing:
            while data:
                data = data[os.write(self._descriptor, data) :]
