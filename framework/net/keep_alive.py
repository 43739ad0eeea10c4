"""Bounds how long a connection outlives the machine at its other end: 10 s while idle, half a minute otherwise.

Probes (keep-alive) do the former; Linux sends none while something that was sent waits to be acknowledged, and
retransmits for a quarter of an hour. TCP_USER_TIMEOUT would end that sooner, but counts a zero window as well (tcp(7)):
it loses a peer that merely does not read, such as a worker in a long call, or a reader of an output. So
retransmissions, and probes of a closed window, are kept frequent instead: the usual number without an answer is reached
soon, and any answer resets the count. Links of workers have a tighter bound, in `framework.net.link_watch`.
"""

from __future__ import annotations

import errno
import socket
import sys

IDLE_S = 3
INTERVAL_S = 1
PROBES = 6

TCP_RTO_MAX_MS = 44
"""linux/tcp.h since 6.15; older systems keep their quarter of an hour."""
RETRANSMIT_MS_MAX = 2_000
"""With the 15 retransmissions that are usual (net.ipv4.tcp_retries2), a connection is lost after 27 s."""


def keep_alive(connection: socket.socket) -> None:
    """End a connection, with ETIMEDOUT, when the machine at its other end no longer answers."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", IDLE_S), ("TCP_KEEPINTVL", INTERVAL_S), ("TCP_KEEPCNT", PROBES)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if sys.platform == "linux":
        try:
            connection.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, RETRANSMIT_MS_MAX)
        except OSError as error:
            if error.errno != errno.ENOPROTOOPT:
                raise
