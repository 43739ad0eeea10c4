"""Supervises all processes of a job, wherever they run.

How a process is started and ended is a launcher's (`framework.launch.launcher`). What is the same for all is here: what
they report (`framework.launch.status_pipe`), which process may join and under which number, when the others are asked
to end, and which of several reports is printed.
"""

from __future__ import annotations

import selectors
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import inf

from framework.errors import CannotStart, ConfigError, JobEnds, JobStopped, ProcessesFailed
from framework.launch.child import ChildProcess
from framework.launch.config import PROCESSES_MAX, Config
from framework.launch.control_protocol import ControlPlane, Supervised
from framework.launch.launcher import END_WHEN_ASKED_S, Launcher, Order, Started
from framework.launch.liveness import TICK_S, AwakeClock, Liveness
from framework.launch.rpc import RpcClient, RpcLink
from framework.launch.signals import Stop
from framework.launch.status_pipe import StatusReader
from framework.membership.members import Address, WorkerId

END_BY_THEMSELVES_S = 2.0
"""How long the other processes have to notice that one has failed, before they are asked to end."""

KEPT_S = 10.0
"""How long a process that has left, or has not joined, may still turn out to be why the others failed."""

SEND_S_MAX = 5
"""How long a process may leave requests unread."""


@dataclass(slots=True)
class Supervisor:
    """The processes of a job: starts them, admits those that join, and ends them. Implements `Processes`."""

    config: Config
    launcher: Launcher
    stop: Stop
    control_plane: ControlPlane | None
    children: list[ChildProcess] = field(default_factory=list)
    _numbered: int = 0
    """How many processes there have been, those that have left included: numbers are not used again."""
    _closed: bool = False
    _starting: threading.Lock = field(default_factory=threading.Lock)
    """One start at a time, which may take a while."""
    _changing: threading.Lock = field(default_factory=threading.Lock)

    def start_initial(self) -> None:
        """Start the processes that the job begins with."""
        with self._starting:
            self._start(range(self.config.processes), None)

    def spawn(self) -> Supervised:
        with self._starting:
            present = self._present()
            if len(present) >= PROCESSES_MAX:
                raise ConfigError(f"this job has {len(present)} processes, which is the most")
            server = next(child for child in present if not child.never_joined)
            [supervised] = self._start([self._numbered], (server.index, server.process.address))
            return supervised

    def coming(self, count: int) -> Sequence[WorkerId]:
        first = self._numbered
        return [worker for index in range(first, first + count) for worker in self._workers(index)]

    def processes(self) -> Sequence[Supervised]:
        return [child.supervised for child in self._present()]

    def running(self) -> list[ChildProcess]:
        return [child for child in self.children if child.code is None]

    def end(self) -> None:
        """Ask all to end."""
        self._refuse_more()
        for child in self.running():
            child.asked_to_end = True
            child.process.ask_to_end(up=child.up)

    def kill(self) -> None:
        for child in self.running():
            child.kill()

    def forget_left(self, now_s: float) -> None:
        """Keep nothing of those that left a while ago: there may be many over the life of a job."""
        with self._changing:
            self.children = [child for child in self.children if not (child.left and now_s > child.ended_s + KEPT_S)]

    def close(self) -> None:
        self._refuse_more()
        with self._starting:
            self.kill()
            for child in self.children:
                child.process.wait()
                child.release()
            self.launcher.close()

    def _refuse_more(self) -> None:
        with self._changing:
            self._closed = True

    def _present(self) -> list[ChildProcess]:
        return [child for child in self.children if not child.left]

    def _start(self, numbers: Sequence[int], server: tuple[int, Address] | None) -> list[Supervised]:
        """Start processes; with the lock held."""
        alone = self._numbered + len(numbers) == 1
        order = Order(
            numbers,
            server,
            outputs=lambda index: self._outputs(index, alone=alone),
            should_stop=lambda: self._closed or self.stop.reason is not None,
            unread=lambda: self.stop.request("the reader of the output has gone"),
        )
        self._check_open()
        return [
            self._adopt(index, process, joins=server is not None)
            for index, process in zip(numbers, self.launcher.start(order), strict=True)
        ]

    def _outputs(self, index: int, *, alone: bool) -> tuple[int | None, int | None]:
        if self.control_plane is None:
            return None, None
        return self.control_plane.outputs(self._workers(index), alone=alone)

    def _adopt(self, index: int, process: Started, *, joins: bool) -> Supervised:
        workers = self._workers(index)
        rpc = RpcClient(RpcLink(process.rpc_socket, send_s_max=SEND_S_MAX))
        supervised = Supervised(index, process.pid, workers, rpc, liveness=Liveness(self.config.liveness))
        if not joins:
            supervised.joined.update(workers)
        with self._changing:
            self._numbered += 1
            self.children.append(ChildProcess(process, supervised, StatusReader(process.status_fd)))
            closed = self._closed
        if closed:
            process.kill()
            self._check_open()
        return supervised

    def _check_open(self) -> None:
        if self._closed:
            raise JobEnds("the job is about to end, and no process can join it any more")

    def _workers(self, index: int) -> list[WorkerId]:
        return [WorkerId(index * self.config.threads + thread) for thread in range(self.config.threads)]


def supervise(launcher: Launcher, config: Config, stop: Stop, control_plane: ControlPlane | None = None) -> None:
    """Start every process of `config` and wait for all of them, and those that join, to end."""
    supervisor = Supervisor(config, launcher, stop, control_plane)
    try:
        try:
            supervisor.start_initial()
        except CannotStart as error:
            raise ProcessesFailed(f"job failed: {error}", 1) from error
        except JobEnds:  # only a request to stop ends it as early as this
            raise JobStopped(stop.reason) from None
        with control_plane.controlling(supervisor, stop) if control_plane is not None else nullcontext():
            _watch(supervisor, stop)
            _raise_failure(supervisor, stop)
    finally:
        supervisor.close()


def _watch(supervisor: Supervisor, stop: Stop) -> None:
    """Until every child has ended, which the end of its status pipe tells, or the system."""
    ask_s = kill_s = inf
    awake = AwakeClock()
    with selectors.DefaultSelector() as selector:
        while True:
            for child in supervisor.children:
                if not child.watched:
                    child.watched = True
                    selector.register(child.status, selectors.EVENT_READ, child)
            if not selector.get_map():
                return
            ready = selector.select(TICK_S)
            awake_s = awake.advance(time.monotonic())
            ended = [key.data for key, _ in ready if not key.data.receive(awake_s)]
            watching = [key.data for key in selector.get_map().values()]
            for child in watching:
                child.check(awake_s)
            ended += [child for child in watching if child not in ended and child.outlived(time.monotonic())]
            for child in ended:
                selector.unregister(child.status)
                if child.reap() != 0 and not child.never_joined:
                    ask_s = min(ask_s, time.monotonic() + END_BY_THEMSELVES_S)
            if stop.reason is not None or all(child.never_joined for child in supervisor.running()):
                ask_s = min(ask_s, time.monotonic())
            if time.monotonic() >= ask_s and kill_s == inf:
                supervisor.end()
                kill_s = time.monotonic() + END_WHEN_ASKED_S
            if time.monotonic() >= kill_s:
                supervisor.kill()
            if ask_s == inf:
                supervisor.forget_left(time.monotonic())


def _raise_failure(supervisor: Supervisor, stop: Stop) -> None:
    if stop.reason is not None:
        raise JobStopped(stop.reason)
    codes = {child.index: child.process.wait() for child in supervisor.children}
    if not any(codes[child.index] for child in supervisor.children if not child.never_joined):
        return
    unasked = [child for child in supervisor.children if codes[child.index] and not child.asked_to_end]
    # A joiner may have been taken in by the others before it knew; but what ended it otherwise did not end the job.
    if any(not child.never_joined and (child.failure is None or child.failure.distance == 0) for child in unasked):
        unasked = [child for child in unasked if not child.never_joined]
    killed = [f"job failed: {child.ending()}" for child in unasked if codes[child.index] < 0]
    reports = sorted(
        (child.failure, codes[child.index])
        for child in unasked
        if child.failure is not None and codes[child.index] > 0  # a killed process says only that it was asked to end
    )
    lines = [*killed, *(failure.report for failure, _ in reports[:1])]
    code = 1 if killed or not reports else max(1, reports[0][1])
    raise ProcessesFailed("\n".join(lines) or f"job failed: the processes exited with {list(codes.values())}", code)
