"""All processes of a job as the one that supervises them sees them, wherever they run.

How a process is started and ended is a launcher's (`framework.launch.launcher`). What is the same for all is here: what
they tell (`framework.launch.status_pipe`), who may join and under which number, when the others are asked to end, and
which of several reports is the one that is printed.
"""

from __future__ import annotations

import json
import os
import selectors
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import inf

from framework.errors import ConfigError, HailerError, JobStopped
from framework.launch.config import PROCESSES_MAX, Config
from framework.launch.control_protocol import ControlPlane, JobEnds, Supervised
from framework.launch.launcher import END_WHEN_ASKED_S, CannotStart, Launcher, Order, Started
from framework.launch.rpc import RpcClient, RpcLink
from framework.launch.signals import Stop
from framework.membership.members import Address, WorkerId

END_BY_THEMSELVES_S = 2.0
"""How long the other processes have to notice that one has failed, before they are asked to end."""

POLL_S = 0.1

SEND_S_MAX = 5
"""How long a process may leave requests unread."""


class ProcessesFailed(HailerError):
    """Some process ended with an error; `code` is what the launcher should exit with."""

    def __init__(self, report: str, code: int) -> None:
        super().__init__(report)
        self.code = code


@dataclass(slots=True)
class _Child:
    process: Started
    supervised: Supervised
    news: int
    up: bool = False
    """Whether it handles signals."""
    report: tuple[int, str] | None = None
    """Of its failure: how far from the cause, and what it says."""
    asked: bool = False
    """Whether it was asked to end, so that how it ends is no news."""
    _said: bytes = b""

    @property
    def index(self) -> int:
        return self.supervised.process

    @property
    def code(self) -> int | None:
        return self.process.poll()

    @property
    def stranger(self) -> bool:
        """Whether it never became a part of the job, which goes on without it."""
        return not self.supervised.joined

    @property
    def gone(self) -> bool:
        """Whether it has ended, and the job goes on; the first process, which feeds it, is never gone in this way."""
        return self.supervised.ended.is_set() and (self.stranger or (self.code == 0 and self.index > 0))

    def listen(self) -> bool:
        """Take what it tells; whether there may be more."""
        try:
            data = os.read(self.news, 65_536)
        except ConnectionError:
            data = b""
        *lines, self._said = (self._said + data).split(b"\n")
        for line in lines:
            match json.loads(line):
                case ["up"]:
                    self.up = True
                case ["phase", worker, phase, duration_s]:
                    self.supervised.phases.append((WorkerId(worker), phase, duration_s))
                case ["joined", worker]:
                    self.supervised.joined.add(WorkerId(worker))
                case ["failed", distance, report]:
                    self.report = distance, report
        return bool(data)

    def conclude(self) -> int:
        """It has ended; with what."""
        code = self.process.wait()
        if code != 0:
            self.supervised.failure = self.report[1] if self.report is not None else self.end()
        self.supervised.ended.set()
        self.release()
        return code

    def release(self) -> None:
        """Let go of what connects to it."""
        if self.news >= 0:
            os.close(self.news)
            self.news = -1
        self.supervised.rpc.close()

    def end(self) -> str:
        """How it ended, if it did not say."""
        return f"process {self.index} {self.process.ending()}"


@dataclass(slots=True)
class Supervisor:
    """All children, and what each new one is given. Implements `Workforce`."""

    config: Config
    launcher: Launcher
    stop: Stop
    plane: ControlPlane | None
    children: list[_Child] = field(default_factory=list)
    _addresses: list[Address] = field(default_factory=list)
    """Where each process listens, those that have left included: numbers are not used again."""
    _closed: bool = False
    _hiring: threading.Lock = field(default_factory=threading.Lock)
    """One is started at a time, which may take a while."""
    _changing: threading.Lock = field(default_factory=threading.Lock)

    def found(self) -> None:
        """Start the processes that the job begins with."""
        with self._hiring:
            self._start(range(self.config.processes), None)

    def spawn(self) -> Supervised:
        with self._hiring:
            index = len(self._addresses)
            if index >= PROCESSES_MAX:
                raise ConfigError(f"this job has had {index} processes, which is the most; start it again")
            [supervised] = self._start([index], min(child.index for child in self._present() if not child.stranger))
            return supervised

    def processes(self) -> Sequence[Supervised]:
        return [child.supervised for child in self._present()]

    def running(self) -> list[_Child]:
        return [child for child in self.children if child.code is None]

    def end(self) -> None:
        """Ask all to end."""
        self._admit_no_more()
        for child in self.running():
            child.asked = True
            child.process.ask_to_end(up=child.up)

    def kill(self) -> None:
        for child in self.running():
            child.process.kill()

    def close(self) -> None:
        self._admit_no_more()
        with self._hiring:
            self.kill()
            for child in self.children:
                child.process.wait()
                child.release()
            self.launcher.close()

    def _admit_no_more(self) -> None:
        with self._changing:
            self._closed = True

    def _present(self) -> list[_Child]:
        return [child for child in self.children if not child.gone]

    def _start(self, numbers: Sequence[int], server: int | None) -> list[Supervised]:
        """Start processes; with the lock held."""
        alone = len(self._addresses) + len(numbers) == 1
        order = Order(
            numbers,
            tuple(self._addresses),
            server,
            outputs=lambda index: (
                (None, None) if self.plane is None else self.plane.outputs(self._workers(index), alone=alone)
            ),
            should_stop=lambda: self._closed or self.stop.reason is not None,
            unread=lambda: self.stop.request("whoever read the output has gone"),
        )
        self._check_open()
        return [
            self._adopt(index, process, joins=server is not None)
            for index, process in zip(numbers, self.launcher.start(order), strict=True)
        ]

    def _adopt(self, index: int, process: Started, *, joins: bool) -> Supervised:
        workers = self._workers(index)
        supervised = Supervised(index, process.pid, workers, RpcClient(RpcLink(process.link, send_s_max=SEND_S_MAX)))
        if not joins:
            supervised.joined.update(workers)
        with self._changing:
            self._addresses.append(process.address)
            self.children.append(_Child(process, supervised, process.news))
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


def supervise(launcher: Launcher, config: Config, stop: Stop, plane: ControlPlane | None = None) -> None:
    """Start every process of `config` and wait for all of them, and those that join, to end."""
    family = Supervisor(config, launcher, stop, plane)
    try:
        try:
            family.found()
        except CannotStart as error:
            raise ProcessesFailed(f"job failed: {error}", 1) from error
        except JobEnds:  # only a request to stop ends it as early as this
            raise JobStopped(stop.reason) from None
        with plane.overseeing(family, stop) if plane is not None else nullcontext():
            _watch(family, stop)
        _raise_failure(family, stop)
    finally:
        family.close()


def _watch(family: Supervisor, stop: Stop) -> None:
    """Until every child has ended. The pipes of their news tell when one does."""
    ask_s = kill_s = inf
    watched = 0
    with selectors.DefaultSelector() as selector:
        while True:
            for child in family.children[watched:]:
                selector.register(child.news, selectors.EVENT_READ, child)
                watched += 1
            if not selector.get_map():
                return
            for key, _ in selector.select(POLL_S):
                child = key.data
                if not child.listen():
                    selector.unregister(key.fd)
                    if child.conclude() != 0 and not child.stranger:
                        ask_s = min(ask_s, time.monotonic() + END_BY_THEMSELVES_S)
            if stop.reason is not None or all(child.stranger for child in family.running()):
                ask_s = min(ask_s, time.monotonic())
            if time.monotonic() >= ask_s and kill_s == inf:
                family.end()
                kill_s = time.monotonic() + END_WHEN_ASKED_S
            if time.monotonic() >= kill_s:
                family.kill()


def _raise_failure(family: Supervisor, stop: Stop) -> None:
    if stop.reason is not None:
        raise JobStopped(stop.reason)
    codes = {child.index: child.process.wait() for child in family.children}
    if not any(codes[child.index] for child in family.children if not child.stranger):
        return
    unasked = [child for child in family.children if codes[child.index] and not child.asked]
    # A joiner may have been taken in by the others before it knew; but what ended it otherwise did not end the job.
    if any(not child.stranger and (child.report is None or child.report[0] == 0) for child in unasked):
        unasked = [child for child in unasked if not child.stranger]
    killed = [f"job failed: {child.end()}" for child in unasked if codes[child.index] < 0]
    reports = sorted(
        (*child.report, codes[child.index])
        for child in unasked
        if child.report is not None and codes[child.index] > 0  # who was killed says only that it was asked to end
    )
    lines = [*killed, *(report for _, report, _ in reports[:1])]
    code = 1 if killed or not reports else max(1, reports[0][2])
    raise ProcessesFailed("\n".join(lines) or f"job failed: the processes exited with {list(codes.values())}", code)
