"""Messages between a broker and its clients: lists of plain values, a frame each, over an authenticated connection.

The first item says what a message is; the rest are its arguments. The broker answers every request with `done` or
`refused`, after any number of `batch` when it streams; `wait` is the heartbeat of a request that has to wait.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

from framework.errors import ProtocolError
from framework.net.keep_alive import keep_alive
from framework.net.link_socket import LinkSocket, socket_of
from framework.wire.codec import decode_value, encode_value
from framework.wire.framing import FRAME_BYTES_MAX, PREFIX_BYTES, frame
from operators.errors import JobLost

SILENCE_S = 30.0
"""How long the other side may be silent while it owes a message."""

DATA_BYTES_MAX = FRAME_BYTES_MAX - 1024
"""How much data fits into a message."""


class Connection:
    """Sends and receives messages over one blocking connection."""

    def __init__(self, connection: LinkSocket, leftover: bytes = b"", *, silence_s: float | None) -> None:
        connection.setblocking(True)
        connection.settimeout(silence_s)
        socket_of(connection).setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(socket_of(connection))
        self._connection = connection
        self._buffer = bytearray(leftover)

    def send(self, *message: Any) -> None:
        """Send a message; `JobLost` if the connection broke."""
        try:
            self._connection.sendall(frame(encode_value(list(message))))
        except OSError as error:
            raise JobLost(f"the connection broke: {error}") from error

    def receive(self) -> list[Any] | None:
        """The next message, or None if the other side has closed the connection after the last."""
        if not self._fill(PREFIX_BYTES):
            return None
        length = int.from_bytes(self._buffer[:PREFIX_BYTES], "big")
        if length > FRAME_BYTES_MAX:
            raise ProtocolError(f"a frame of {length} bytes, and the limit is {FRAME_BYTES_MAX}")
        if not self._fill(PREFIX_BYTES + length):
            raise JobLost("the connection broke within a message")
        body = bytes(memoryview(self._buffer)[PREFIX_BYTES : PREFIX_BYTES + length])
        del self._buffer[: PREFIX_BYTES + length]
        message = decode_value(body)
        if not isinstance(message, list) or not message or not isinstance(message[0], str):
            raise ProtocolError("a message is a list that begins with what it is")
        return message

    def expect_within(self, silence_s: float | None) -> None:
        """From now on, the other side may be silent for so long."""
        self._connection.settimeout(silence_s)

    def shutdown(self) -> None:
        """End the connection from another thread; the one that receives gets None, and closes it."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Release the socket."""
        self._connection.close()

    def _fill(self, size: int) -> bool:
        """Read until the buffer has `size` bytes; False if the connection is closed before."""
        while len(self._buffer) < size:
            try:
                data = self._connection.recv(1 << 18)
            except TimeoutError as error:
                raise JobLost("nothing was heard for too long") from error
            except OSError as error:
                raise JobLost(f"the connection broke: {error}") from error
            if not data:
                return False
            self._buffer += data
        return True
