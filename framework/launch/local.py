"""Processes on this machine, as children of the one that the user started.

Each child runs the user's own command again and is told who it is (`Spawned`). The launcher binds the ports, so that
two jobs never collide, and a lifeline ends the children if the launcher dies.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from framework.launch.cpu_time import cpu_time_s
from framework.launch.launcher import KILLED_S_MAX, Order, how_it_ended
from framework.launch.spawned import SPAWNED_VARIABLE, Spawned
from framework.membership.members import Address
from framework.net.secret import RUN_BYTES


class LocalLauncher:
    """Starts children of this process."""

    def __init__(self) -> None:
        self._held, self._lifeline = os.pipe()
        """What children hold on to: reading from it ends when this process does, however it ends."""
        self._run = secrets.token_hex(RUN_BYTES)

    def start(self, order: Order) -> Iterator[_Local]:
        """Start them, one by one."""
        listeners = [socket.create_server(("127.0.0.1", 0), backlog=128) for _ in order.numbers]
        try:
            addresses = list(map(_address, listeners))
            for index, listener in zip(order.numbers, listeners, strict=True):
                yield self._start(index, listener, addresses, order)
        finally:
            for listener in listeners:
                listener.close()

    def close(self) -> None:
        """Close the lifeline."""
        os.close(self._held)
        os.close(self._lifeline)

    def _start(self, index: int, listener: socket.socket, addresses: Sequence[Address], order: Order) -> _Local:
        reading, writing = os.pipe()
        ours, theirs = socket.socketpair()
        out, err = order.outputs(index)
        descriptors = (listener.fileno(), self._held, writing, theirs.fileno())
        spawned = Spawned(index, tuple(addresses), *descriptors, order.server, self._run)
        process = subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]],
            env={**os.environ, SPAWNED_VARIABLE: spawned.to_text()},
            pass_fds=descriptors,
            process_group=0,
            stdin=None if index == 0 else subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        theirs.close()
        for descriptor in (writing, out, err):
            if descriptor is not None:
                os.close(descriptor)
        return _Local(process, _address(listener), reading, ours)


@dataclass(frozen=True, slots=True)
class _Local:
    process: subprocess.Popen[bytes]
    address: Address
    status_fd: int
    rpc_socket: socket.socket

    @property
    def pid(self) -> int:
        return self.process.pid

    def poll(self) -> int | None:
        return self.process.poll()

    def wait(self) -> int:
        for _ in range(2):
            try:
                return self.process.wait(KILLED_S_MAX)
            except subprocess.TimeoutExpired:  # it has closed its status pipe, and nobody can supervise it
                self.kill()
        return -signal.SIGKILL

    def ending(self) -> str:
        if self.process.returncode is None:
            return "was killed, and does not end: it waits for a device, and the system keeps it until that answers"
        return how_it_ended(self.process.returncode)

    def cpu_time_s(self) -> float | None:
        return cpu_time_s(self.process.pid)

    def ask_to_end(self, *, up: bool) -> None:
        """SIGTERM would ask it to leave; but one that is not up knows nothing of that, nor of SIGINT."""
        self.process.send_signal(signal.SIGINT if up else signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()


def _address(listener: socket.socket) -> Address:
    host, port = listener.getsockname()
    return host, port
