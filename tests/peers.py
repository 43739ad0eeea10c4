"""The other ends of connections, and what arrives from them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from framework.net.endpoint import Endpoint
from framework.wire.messages import Message

LIMIT_S = 60.0


def receive(endpoint: Endpoint, count: int) -> list[Message]:
    """Exactly `count` messages, or what has come when the time is over."""
    deadline_s = time.monotonic() + LIMIT_S
    messages: list[Message] = []
    while len(messages) < count and time.monotonic() < deadline_s:
        endpoint.park(deadline_s - time.monotonic())
        messages.extend(message for _, message in endpoint.receive())
    return messages


@contextmanager
def ssh_server() -> Iterator[Any]:
    """The address of a server of another protocol, for one client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH\r\n")
                connection.recv(4096)

        thread = threading.Thread(target=greet)
        thread.start()
        yield listener.getsockname()
        thread.join()
