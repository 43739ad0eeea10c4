"""What a launcher gives to a process that it starts, and the lifeline by which the process ends with its launcher."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import astuple, dataclass
from io import TextIOWrapper

from framework.launch.launcher import END_WHEN_ASKED_S
from framework.membership.members import Address

SPAWNED_VARIABLE = "HAILER_SPAWNED"
"""Set by the launcher of local processes for its children; see `Spawned`."""


@dataclass(frozen=True, slots=True)
class Spawned:
    """Descriptors and addresses that a child has instead of flags."""

    process: int
    addresses: tuple[Address, ...]
    """Where the processes listen that start together; if this one joins, its own alone."""
    listener_fd: int
    """The listening socket that the launcher bound for it."""
    lifeline_fd: int
    """A pipe that ends when the launcher does."""
    status_fd: int
    """See `framework.launch.status_pipe`."""
    rpc_fd: int
    """See `framework.launch.rpc`."""
    server: tuple[int, Address] | None = None
    """The process that helps this one to join, and where it listens, if the job runs already."""
    run: str = ""
    """The run of the job that all processes of the launcher are of."""

    def to_text(self) -> str:
        """One line of JSON: the value of `SPAWNED_VARIABLE`."""
        return json.dumps(astuple(self))

    @staticmethod
    def from_environment() -> Spawned | None:
        """What the launcher set, if there is one; removed, so that this process's own children do not read it."""
        value = os.environ.pop(SPAWNED_VARIABLE, None)
        return None if value is None else Spawned.from_text(value)

    @staticmethod
    def from_text(text: str) -> Spawned:
        """What `to_text` wrote."""
        process, addresses, listener_fd, lifeline_fd, status_fd, rpc_fd, server, run = json.loads(text)
        known = tuple((host, port) for host, port in addresses)
        told = None if server is None else (server[0], (server[1][0], server[1][1]))
        return Spawned(process, known, listener_fd, lifeline_fd, status_fd, rpc_fd, told, run)

    def listener(self) -> socket.socket:
        """The listening socket."""
        return socket.socket(fileno=self.listener_fd)

    def live_as_child(self) -> None:
        """Buffer output by lines, since other processes write to it as well, and end when the launcher has ended.

        Programs that this process executes do not inherit the descriptors. To be called once signals are handled.
        """
        for descriptor in (self.listener_fd, self.lifeline_fd, self.status_fd, self.rpc_fd):
            os.set_inheritable(descriptor, False)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(line_buffering=True, write_through=False)
        threading.Thread(target=self._hold_lifeline, name="lifeline", daemon=True).start()

    def _hold_lifeline(self) -> None:
        os.read(self.lifeline_fd, 1)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(END_WHEN_ASKED_S)
        os._exit(1)
