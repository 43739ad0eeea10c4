"""Which processes a supervisor starts, over a launcher whose processes do what the test says."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from framework.errors import ConfigError
from framework.launch import supervisor as module
from framework.launch.config import Config
from framework.launch.launcher import Order
from framework.launch.signals import Stop
from framework.launch.supervisor import Supervisor
from framework.membership.members import Address


@dataclass
class Scripted:
    """A process that ends when it is told to."""

    address: Address
    pid: int = 0
    code: int | None = None

    def __post_init__(self) -> None:
        self.status_fd, writing = os.pipe()
        os.close(writing)
        self.rpc_socket, theirs = socket.socketpair()
        theirs.close()

    def poll(self) -> int | None:
        return self.code

    def wait(self) -> int:
        assert self.code is not None
        return self.code

    def ending(self) -> str:
        return "ended"

    def cpu_time_s(self) -> float | None:
        return None

    def ask_to_end(self, *, up: bool) -> None:
        self.kill()

    def kill(self) -> None:
        self.code = -9


@dataclass
class ScriptedLauncher:
    """Notes what it is asked for."""

    orders: list[Order] = field(default_factory=list)
    processes: list[Scripted] = field(default_factory=list)

    def start(self, order: Order) -> Iterator[Scripted]:
        self.orders.append(order)
        for number in order.numbers:
            self.processes.append(Scripted(("host", 5000 + number)))
            yield self.processes[-1]

    def close(self) -> None:
        pass


def test_processes_that_have_left_do_not_count_but_their_numbers_are_not_given_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "PROCESSES_MAX", 2)
    launcher = ScriptedLauncher()
    supervisor = Supervisor(Config(), launcher, Stop(), None)
    supervisor.start_initial()
    for number in range(1, 4):
        joined = supervisor.spawn()
        joined.joined.update(joined.workers)
        with pytest.raises(ConfigError, match="this job has 2 processes, which is the most"):
            supervisor.spawn()
        launcher.processes[number].code = 0
        supervisor.children[number].reap()
    assert [(order.numbers, order.server) for order in launcher.orders] == [
        (range(1), None),
        *(([number], (0, ("host", 5000))) for number in range(1, 4)),
    ]
    supervisor.close()
