"""Lets links in: one thread per process that listens, and takes strangers through the handshake.

Handshakes are non-blocking, each with a deadline, and their number is bounded: whatever comes in, the workers go on
undisturbed. A stranger that fails, or that cannot be served, is cut off with one line in the log; others still are.
"""

from __future__ import annotations

import logging
import secrets
import selectors
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Generic

from framework.errors import HailerError
from framework.net.link_socket import LinkSocket, secured, socket_of
from framework.net.rate_limited_log import RateLimitedLog
from framework.net.waker import Waker
from framework.wire.credentials import Credentials
from framework.wire.handshake import NONCE_BYTES, Accepted, P, Rejected, ServerHandshake

HANDSHAKE_TIMEOUT_S = 5.0
STRANGERS_MAX = 64
READ_BYTES = 1024
ACCEPT_PAUSE_S = 0.2
"""How long the acceptor pauses when the process has no file descriptor left."""

_log = logging.getLogger("hailer.net")


@dataclass(slots=True, eq=False)
class _Stranger(Generic[P]):
    """A connection that has not passed the handshake."""

    connection: LinkSocket
    address: str
    handshake: ServerHandshake[P]
    deadline_s: float

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0]


class Acceptor(Generic[P]):
    """Owns the listening socket from `start` to `close`. Serves connections of some purposes and refuses others."""

    def __init__(
        self,
        listener: socket.socket,
        credentials: Credentials,
        *,
        serves: tuple[type[P], ...],
        admit: Callable[[P], str | None],
        deliver: Callable[[P, LinkSocket], None],
        timeout_s: float = HANDSHAKE_TIMEOUT_S,
    ) -> None:
        """`admit` says why a client is refused; those that are not and could be told so go to `deliver`."""
        self.rejections: deque[str] = deque(maxlen=8)
        """The last strangers that were cut off, and why."""
        self._listener = listener
        self._credentials = credentials
        self._serves = serves
        self._admit = admit
        self._deliver = deliver
        self._timeout_s = timeout_s
        self._selector = selectors.DefaultSelector()
        self._waker = Waker(self._selector)
        self._strangers: dict[socket.socket, _Stranger[P]] = {}
        self._resume_s: float | None = None
        self._warnings = RateLimitedLog(_log)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="hailer-acceptor", daemon=True)

    def start(self) -> None:
        """Begin to accept."""
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, and release the listener and all strangers. Idempotent."""
        if self._stopping:
            return
        self._stopping = True
        self._waker.wake()
        if self._thread.ident is not None:
            self._thread.join()
        for stranger in self._strangers.values():
            stranger.connection.close()
        self._waker.close()
        self._selector.close()
        self._listener.close()

    def _run(self) -> None:
        while not self._stopping:
            for key, _ in self._waker.park(self._sleep_s(time.monotonic())):
                if key.fileobj is self._listener:
                    self._accept(time.monotonic())
                elif (stranger := self._strangers.get(key.data)) is not None:
                    self._converse(stranger)
            self._expire(time.monotonic())

    def _sleep_s(self, now_s: float) -> float | None:
        # Strangers are in order of arrival, which is that of their deadlines.
        due = [stranger.deadline_s for stranger in islice(self._strangers.values(), 1)]
        if self._resume_s is not None:
            due.append(self._resume_s)
        return max(0.0, min(due) - now_s) if due else None

    def _accept(self, now_s: float) -> None:
        for _ in range(STRANGERS_MAX):
            try:
                connection, address = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue
            except OSError as error:
                self._warnings.warn(f"connections have to wait: {error.strerror}", now_s)
                self._selector.unregister(self._listener)
                self._resume_s = now_s + ACCEPT_PAUSE_S
                return
            self._take_in(connection, f"{address[0]}:{address[1]}", now_s)

    def _take_in(self, connection: socket.socket, address: str, now_s: float) -> None:
        if len(self._strangers) == STRANGERS_MAX:
            self._cut(self._first_of_the_most(), f"{STRANGERS_MAX} others wait too, most of them from where it is")
        connection.setblocking(False)
        try:
            stranger = secured(connection, self._credentials, server_side=True)
        except HailerError as error:
            self._reject(connection, address, f"it cannot be talked to: {error}")
            return
        try:
            self._selector.register(connection, selectors.EVENT_READ, connection)
        except OSError as error:  # the system's limit of what can be watched
            self._reject(connection, address, f"it cannot be watched: {error.strerror}")
            return
        handshake = ServerHandshake(self._credentials, secrets.token_bytes(NONCE_BYTES), self._serves, self._admit)
        self._strangers[connection] = _Stranger(stranger, address, handshake, now_s + self._timeout_s)

    def _first_of_the_most(self) -> _Stranger[P]:
        """The oldest from the host that has the most: who floods the port keeps none but itself out."""
        counts = Counter(stranger.host for stranger in self._strangers.values())
        most = max(counts.values())
        return next(stranger for stranger in self._strangers.values() if counts[stranger.host] == most)

    def _converse(self, stranger: _Stranger[P]) -> None:
        outcome: Accepted[P] | Rejected | None = None
        try:
            while outcome is None:
                data = stranger.connection.recv(READ_BYTES)
                if not data:
                    self._cut(stranger, "it hung up during the handshake")
                    return
                reply, outcome = stranger.handshake.receive(data)
                # Replies are small and few: on a fresh connection they always fit into the kernel's buffer.
                if reply and stranger.connection.send(reply) < len(reply):
                    self._cut(stranger, "it does not read")
                    return
        except BlockingIOError:
            return
        except HailerError as error:
            self._cut(stranger, str(error))
            return
        except OSError as error:
            self._cut(stranger, f"its connection failed: {error.strerror or error}")
            return
        match outcome:
            case Accepted(purpose):
                self._forget(stranger)
                self._hand_over(stranger, purpose)
            case Rejected(reason):
                self._cut(stranger, reason)

    def _hand_over(self, stranger: _Stranger[P], purpose: P) -> None:
        try:
            self._deliver(purpose, stranger.connection)
        except Exception as error:  # whatever this client lacks, the next one may have
            self._reject(stranger.connection, stranger.address, f"it cannot be served: {error}")

    def _expire(self, now_s: float) -> None:
        if self._resume_s is not None and self._resume_s <= now_s:
            self._resume(now_s)
        for stranger in list(self._strangers.values()):
            if stranger.deadline_s > now_s:
                return
            self._cut(stranger, f"its handshake took more than {self._timeout_s:g} s")

    def _resume(self, now_s: float) -> None:
        try:
            self._selector.register(self._listener, selectors.EVENT_READ)
        except OSError:
            self._resume_s = now_s + ACCEPT_PAUSE_S
        else:
            self._resume_s = None

    def _forget(self, stranger: _Stranger[P]) -> None:
        del self._strangers[socket_of(stranger.connection)]
        self._selector.unregister(stranger.connection)

    def _cut(self, stranger: _Stranger[P], reason: str) -> None:
        self._forget(stranger)
        self._reject(stranger.connection, stranger.address, reason)

    def _reject(self, connection: LinkSocket, address: str, reason: str) -> None:
        connection.close()
        self.rejections.append(f"{address}: {reason}")
        self._warnings.warn(f"a connection from {address} is cut off: {reason}", time.monotonic())
