"""Links belong to the process that opened them: a child that it forks, as multiprocessing does, closes its copies.

Else the child would keep them open when the process has ended, and the peers would not notice that it has.
"""

from __future__ import annotations

import os
import socket
from weakref import WeakSet

_held: WeakSet[socket.socket] = WeakSet()


def close_when_forked(connection: socket.socket) -> None:
    """Let children that are forked from now on close their copy of `connection`."""
    _held.add(connection)


def _close() -> None:
    for connection in list(_held):
        descriptor = connection.detach()  # what unwinds in the child must not reach the link, nor what has its number
        if descriptor >= 0:
            os.close(descriptor)


os.register_at_fork(after_in_child=_close)
