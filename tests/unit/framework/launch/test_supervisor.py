"""Which processes a supervisor starts, over a launcher whose processes do what the test says."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from framework.errors import ConfigError
from framework.launch import child
from framework.launch import supervisor as module
from framework.launch.config import Config
from framework.launch.control_protocol import Processes
from framework.launch.launcher import Order
from framework.launch.liveness import LivenessLimits, WorkerBeat
from framework.launch.signals import Stop
from framework.launch.supervisor import Supervisor
from framework.membership.members import Address, WorkerId
from framework.worker.worker import Worker


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
    kind: type[Scripted] = Scripted

    def start(self, order: Order) -> Iterator[Scripted]:
        self.orders.append(order)
        for number in order.numbers:
            order.outputs(number)
            self.processes.append(self.kind(("host", 5000 + number)))
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
    supervisor.forget_left(time.monotonic())
    assert [child.index for child in supervisor.children] == [0, 1, 2, 3], "they may be why others fail"
    supervisor.forget_left(time.monotonic() + 2 * module.KEPT_S)
    assert [child.index for child in supervisor.children] == [0]
    supervisor.close()


def test_a_killed_process_that_does_not_end_is_waited_for_no_longer(monkeypatch: pytest.MonkeyPatch):
    """It waits for a device, say, or its machine is out of reach, and its status pipe does not end either."""
    held: list[int] = []

    class Stuck(Scripted):
        def __post_init__(self) -> None:
            super().__post_init__()
            os.close(self.status_fd)
            self.status_fd, writing = os.pipe()
            held.append(writing)

        def kill(self) -> None:
            pass

        def wait(self) -> int:
            return -9

    monkeypatch.setattr(module, "END_WHEN_ASKED_S", 0.0)
    monkeypatch.setattr(child, "KILLED_S_MAX", 0.0)
    stop = Stop()
    stop.request("nobody wants it any more")
    launcher = ScriptedLauncher(kind=Stuck)
    supervisor = Supervisor(Config(), launcher, Stop(), None)
    supervisor.start_initial()
    module._watch(supervisor, stop)
    [stuck] = supervisor.children
    assert (stuck.supervised.ended.is_set(), stuck.code) == (True, None)
    supervisor.close()
    for descriptor in held:
        os.close(descriptor)


class Prefixes:
    """A `ControlPlane` that notes which processes may be alone."""

    def __init__(self) -> None:
        self.alone: dict[WorkerId, bool] = {}

    def answer(self, worker: Worker, request: str, arguments: Mapping[str, Any]) -> Any:
        return None

    def done(self) -> Any:
        return None

    def outputs(self, workers: Sequence[WorkerId], *, alone: bool) -> tuple[int | None, int | None]:
        self.alone |= dict.fromkeys(workers, alone)
        return None, None

    def controlling(self, processes: Processes, stop: Stop) -> AbstractContextManager[None]:
        return nullcontext()


def test_a_process_that_joins_is_not_alone():
    prefixes = Prefixes()
    supervisor = Supervisor(Config(), ScriptedLauncher(), Stop(), prefixes)
    supervisor.start_initial()
    supervisor.spawn()
    assert prefixes.alone == {0: True, 1: False}
    supervisor.close()


@pytest.mark.parametrize("asked", [False, True])
def test_a_process_whose_worker_does_not_step_is_lost_unless_it_was_asked_to_end(asked: bool):
    supervisor = Supervisor(Config(liveness=LivenessLimits(step_s=5.0)), ScriptedLauncher(), Stop(), None)
    supervisor.start_initial()
    [process] = supervisor.children
    process.asked_to_end = asked
    process.supervised.liveness.beat(0.0)
    process.supervised.liveness.worker_beat(WorkerBeat(WorkerId(0), steps=1, idle=False), 0.0)
    process.check(6.0)
    assert (process.lost is None, process.code) == ((True, None) if asked else (False, -9))
    supervisor.close()
