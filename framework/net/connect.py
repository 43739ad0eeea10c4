"""The connecting side of a link: one attempt, from the first packet to the welcome.

What may be cured by waiting (nobody listens yet, no answer in time) raises `OSError`, and the caller tries again.
What will not get better raises the handshake's own errors.
"""

from __future__ import annotations

import errno
import os
import secrets
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.errors import JobStopped
from framework.membership.members import Address
from framework.net.link_socket import LinkSocket, secured
from framework.wire.credentials import Credentials
from framework.wire.handshake import NONCE_BYTES, ClientHandshake
from framework.wire.purpose import Purpose

if TYPE_CHECKING:
    from framework.net.tls import TlsConnection

STOP_POLL_S = 0.1
READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an attempt may take, and who may end it."""

    deadline_s: float
    should_stop: Callable[[], bool]

    def within(self, timeout_s: float) -> Patience:
        """The same, but for at most `timeout_s` from now."""
        return Patience(min(self.deadline_s, time.monotonic() + timeout_s), self.should_stop)

    def check(self) -> float:
        """How long to sleep before checking again. Raises when it is over."""
        if self.should_stop():
            raise JobStopped("the job was stopped while it waited for its other processes")
        left = self.deadline_s - time.monotonic()
        if left <= 0:
            raise TimeoutError(errno.ETIMEDOUT, "no answer in time")
        return min(left, STOP_POLL_S)


def connect_link(
    address: Address, purpose: Purpose, credentials: Credentials, patience: Patience
) -> tuple[LinkSocket, bytes]:
    """A connection that is welcome, and what came on it with the welcome."""
    family, kind, protocol, _, target = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
    connection = socket.socket(family, kind, protocol)
    try:
        connection.setblocking(False)
        with selectors.DefaultSelector() as selector:
            _connect(connection, target, selector, patience)
            link = secured(connection, credentials, server_side=False)
            selector.register(link, selectors.EVENT_READ)
            if not isinstance(link, socket.socket):
                _come_to_terms(link, selector, patience)
            return link, _shake_hands(link, purpose, credentials, selector, patience)
    except BaseException:
        connection.close()
        raise


def _connect(connection: socket.socket, target: object, selector: selectors.BaseSelector, patience: Patience) -> None:
    failure = connection.connect_ex(target)  # type: ignore[arg-type]
    if failure == errno.EINPROGRESS:
        selector.register(connection, selectors.EVENT_WRITE)
        while not selector.select(patience.check()):
            pass
        selector.unregister(connection)
        failure = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if failure:
        raise OSError(failure, os.strerror(failure))
    if connection.getsockname() == connection.getpeername():
        # The kernel may pick the very port that it connects to; the connection then talks to itself.
        raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens there")


def _come_to_terms(connection: TlsConnection, selector: selectors.BaseSelector, patience: Patience) -> None:
    while True:
        try:
            connection.do_handshake()
            return
        except BlockingIOError:
            _wait(selector, patience)


def _shake_hands(
    connection: LinkSocket,
    purpose: Purpose,
    credentials: Credentials,
    selector: selectors.BaseSelector,
    patience: Patience,
) -> bytes:
    handshake = ClientHandshake(credentials, secrets.token_bytes(NONCE_BYTES), purpose)
    connection.sendall(handshake.opening)
    while True:
        try:
            data = connection.recv(READ_BYTES)
        except BlockingIOError:
            _wait(selector, patience)
            continue
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "it hung up during the handshake")
        reply, welcomed = handshake.receive(data)
        if welcomed is not None:
            return welcomed.leftover
        if reply:
            connection.sendall(reply)


def _wait(selector: selectors.BaseSelector, patience: Patience) -> None:
    while not selector.select(patience.check()):
        pass
