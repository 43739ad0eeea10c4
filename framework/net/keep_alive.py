"""TCP keep-alive: a connection ends when the machine at its other end no longer answers."""

from __future__ import annotations

import socket


def keep_alive(connection: socket.socket, *, idle_s: int, interval_s: int, probes: int) -> None:
    """Probe a connection that has been silent for `idle_s`; it is lost after this many `probes` without an answer."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", idle_s), ("TCP_KEEPINTVL", interval_s), ("TCP_KEEPCNT", probes)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
