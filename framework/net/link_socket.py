"""What a link is read from and written to: a plain socket if it stays on this machine, else one encrypted with TLS.

TLS is loaded with the first connection that is encrypted: most processes have none.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, TypeAlias

from framework.wire.credentials import Credentials, Encryption

if TYPE_CHECKING:
    from framework.net.tls import TlsConnection

LinkSocket: TypeAlias = "socket.socket | TlsConnection"


def secured(connection: socket.socket, credentials: Credentials, *, server_side: bool) -> LinkSocket:
    """The connection itself if it stays on this machine, else an encrypted one over it."""
    match credentials.encryption:
        case Encryption.NEVER:
            return connection
        case Encryption.BETWEEN_MACHINES if is_local(connection):
            return connection
    from framework.net.certificate import tls_context
    from framework.net.tls import TlsConnection

    return TlsConnection(connection, tls_context(credentials.tls_key, server_side=server_side), server_side=server_side)


def encrypted(connection: LinkSocket) -> TlsConnection | None:
    """The connection if it is encrypted."""
    return None if isinstance(connection, socket.socket) else connection


def socket_of(connection: LinkSocket) -> socket.socket:
    """The socket below, for its options."""
    return connection if isinstance(connection, socket.socket) else connection.socket


def is_local(connection: socket.socket) -> bool:
    """Whether both ends are on one machine: they have one address, or are both at the loopback interface.

    Each end sees what the other sees, unless something in between translates addresses.
    """
    try:
        ours, theirs = connection.getsockname()[0], connection.getpeername()[0]
    except (OSError, IndexError):
        return False
    return bool(ours == theirs or (_is_loopback(ours) and _is_loopback(theirs)))


def _is_loopback(host: str) -> bool:
    return host == "::1" or host.startswith("127.")
