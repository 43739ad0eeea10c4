"""Where processes in tasks of Spark reach the one that supervises them: a port, a secret, and five streams for each.

A process opens each of its streams through the same handshake as links between workers (`framework.net.acceptor`),
with a secret of this run, as an `ExecutorStream`. Each stream is admitted once, so that a second copy of a process,
from a scheduler that tries again, is turned away with the reason. Who uses a stream gets a plain socket: of one that is
encrypted, the end of a tunnel (`framework.net.tunnel`).
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum

from framework.launch.output_lines import whole_lines
from framework.net.acceptor import Acceptor
from framework.net.keep_alive import keep_alive
from framework.net.link_socket import LinkSocket, socket_of
from framework.net.tunnel import Tunnel
from framework.wire.credentials import Credentials
from framework.wire.purpose import ExecutorStream


class StreamKind(IntEnum):
    """What a connection to the gateway is for; the first is opened first."""

    CONTROL = 0
    """Orders to the task, and what its process exits with, over an `RpcLink`. When one side ends, so does the other."""
    STATUS = 1
    RPC = 2
    STDOUT = 3
    STDERR = 4


class Gateway:
    """Accepts the streams of processes from the moment that it is made until `close`."""

    def __init__(self, host: str, credentials: Credentials) -> None:
        listener = socket.create_server((host, 0), backlog=128)
        self.credentials = credentials
        self.port: int = listener.getsockname()[1]
        self._arrived: dict[tuple[int, int], dict[StreamKind, socket.socket]] = {}
        """The streams of every attempt that is expected, or was."""
        self._admitted: set[tuple[int, int, int]] = set()
        self._lock = threading.Lock()
        self._acceptor = Acceptor(
            listener, credentials, serves=(ExecutorStream,), admit=self._admit, deliver=self._deliver
        )
        self._acceptor.start()

    def expect(self, process: int, attempt: int) -> None:
        """Admit the streams of this attempt from now on."""
        with self._lock:
            self._arrived[process, attempt] = {}

    def take(self, process: int, attempt: int) -> dict[StreamKind, socket.socket] | None:
        """All streams of an attempt once they are there; the caller closes them."""
        with self._lock:
            streams = self._arrived[process, attempt]
            if len(streams) < len(StreamKind):
                return None
            self._arrived[process, attempt] = {}
            return streams

    def forget(self, process: int, attempt: int) -> None:
        """Admit no further stream of this attempt."""
        with self._lock:
            for connection in self._arrived.pop((process, attempt)).values():
                connection.close()

    def close(self) -> None:
        """Stop accepting."""
        self._acceptor.close()

    def _admit(self, stream: ExecutorStream) -> str | None:
        process, attempt, kind = stream.process, stream.attempt, stream.kind
        with self._lock:
            if (process, attempt) not in self._arrived or kind >= len(StreamKind):
                return f"process {process} is no longer waited for"
            if (process, attempt, kind) in self._admitted:
                return f"process {process} was started already, and is not started a second time"
        return None

    def _deliver(self, stream: ExecutorStream, link: LinkSocket) -> None:
        connection, tunnel = plain_stream(link)
        if tunnel is not None:
            tunnel.start()
        with self._lock:
            self._admitted.add((stream.process, stream.attempt, stream.kind))
            streams = self._arrived.get((stream.process, stream.attempt))
            if streams is None:
                connection.close()
                return
            streams[StreamKind(stream.kind)] = connection


def plain_stream(connection: LinkSocket) -> tuple[socket.socket, Tunnel | None]:
    """A plain, blocking socket that notices a lost machine, and the tunnel to start if the connection is encrypted."""
    keep_alive(socket_of(connection))
    if isinstance(connection, socket.socket):
        connection.setblocking(True)
        return connection, None
    tunnel = Tunnel(connection)
    return tunnel.end, tunnel


class OutputPump:
    """Copies a stream to a descriptor, whole lines at a time, in a thread of its own."""

    _writing = threading.Lock()

    def __init__(self, stream: socket.socket, descriptor: int | None, usual: int, unread: Callable[[], None]) -> None:
        """Without a descriptor, it is the `usual` one, and stays open; `unread` is called when nobody reads it."""
        self._stream = stream
        self._descriptor = usual if descriptor is None else descriptor
        self._owned = descriptor is not None
        self._unread = unread
        self._thread = threading.Thread(target=self._run, name="output pump", daemon=True)
        self._thread.start()

    def close(self, within_s: float) -> None:
        """Wait until all is copied, but no longer than this."""
        self._thread.join(within_s)
        with suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        try:
            for lines in whole_lines(self._receive):
                self._write(lines)
        except OSError:
            self._unread()
        finally:
            self._stream.close()
            if self._owned:
                os.close(self._descriptor)

    def _receive(self, size: int) -> bytes:
        with suppress(OSError):  # it is lost: what is known of its process comes another way
            return self._stream.recv(size)
        return b""

    def _write(self, data: bytes) -> None:
        with self._writing:
            while data:
                data = data[os.write(self._descriptor, data) :]
