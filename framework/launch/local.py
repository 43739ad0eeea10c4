"""All processes of a computation on this machine, started and watched by the one that the user started.

Each child runs the user's own command again and is told who it is (`Spawned`). The launcher binds the ports, so that
two jobs never collide; a lifeline ends the children if the launcher dies; and of the children's reports it prints the
one that tells most. With a control plane, a link to each child carries requests while the job runs, and further
children can be started, which join. A child that leaves the job ends with 0 and is forgotten.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from io import TextIOWrapper
from math import inf

from framework.errors import ConfigError, HailerError, JobStopped
from framework.launch.config import PROCESSES_MAX, SPAWNED_VARIABLE, Config, Spawned
from framework.launch.link import Inquiry, Link
from framework.launch.news import tell_failure, tell_up
from framework.launch.plane import ControlPlane, JobEnds, Supervised
from framework.launch.signals import Stop
from framework.membership import Address, WorkerId

END_BY_THEMSELVES_S = 2.0
"""How long the other processes have to notice that one has failed, before they are asked to end."""

END_WHEN_ASKED_S = 10.0
"""How long they have then, before they are killed."""

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
    process: subprocess.Popen[bytes]
    news: int
    """The reading end of the pipe for what it tells."""
    supervised: Supervised
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
    def stranger(self) -> bool:
        """Whether it never became a part of the job, which goes on without it."""
        return not self.supervised.joined

    @property
    def gone(self) -> bool:
        """Whether it has ended, and the job goes on; the first process, which feeds it, is never gone in this way."""
        return self.supervised.ended.is_set() and (self.stranger or (self.process.returncode == 0 and self.index > 0))

    def listen(self) -> bool:
        """Take what it tells; whether there may be more."""
        data = os.read(self.news, 65_536)
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
        self.supervised.inquiry.close()

    def end(self) -> str:
        """How it ended, if it did not say."""
        code = self.process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
        return f"process {self.index} {how}"


@dataclass(slots=True)
class _Family:
    """All children, and what each new one is given. Implements `Workforce`."""

    config: Config
    plane: ControlPlane | None
    children: list[_Child] = field(default_factory=list)
    held: int = -1
    """What children hold on to: reading from it ends when this process does."""
    lifeline: int = -1
    """The writing end; it closes with this process, however that ends."""
    _addresses: list[Address] = field(default_factory=list)
    """Where each process listens, those that have left included: numbers are not used again."""
    _closed: bool = False
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.held, self.lifeline = os.pipe()

    def found(self) -> None:
        """Start the processes that the job begins with."""
        listeners = [_listen() for _ in self.config.addresses]
        self._addresses += [_address(listener) for listener in listeners]
        try:
            for index, listener in enumerate(listeners):
                self._start(index, listener, None)
        finally:
            for listener in listeners:
                listener.close()

    def hire(self) -> Supervised:
        with self._starting, _listen() as listener:
            if self._closed:
                raise JobEnds("the job is about to end, and no process can join it any more")
            index = len(self._addresses)
            if index >= PROCESSES_MAX:
                raise ConfigError(f"this job has had {index} processes, which is the most; start it again")
            self._addresses.append(_address(listener))
            return self._start(index, listener, min(child.index for child in self._present() if not child.stranger))

    def processes(self) -> Sequence[Supervised]:
        return [child.supervised for child in self._present()]

    def running(self) -> list[_Child]:
        return [child for child in self.children if child.process.poll() is None]

    def end(self) -> None:
        """Ask all to end. SIGTERM would ask them to leave, but those that are not up know nothing of that."""
        with self._starting:
            self._closed = True
        for child in self.running():
            child.asked = True
            child.process.send_signal(signal.SIGINT if child.up else signal.SIGTERM)

    def kill(self) -> None:
        for child in self.running():
            child.process.kill()

    def close(self) -> None:
        with self._starting:
            self._closed = True
        self.kill()
        for child in self.children:
            child.process.wait()
            child.release()
        os.close(self.held)
        os.close(self.lifeline)

    def _present(self) -> list[_Child]:
        return [child for child in self.children if not child.gone]

    def _start(self, index: int, listener: socket.socket, server: int | None) -> Supervised:
        """Start the process with this number: the user's own command again, told who it is and whom to join."""
        threads = self.config.threads
        reading, writing = os.pipe()
        ours, theirs = socket.socketpair()
        workers = [WorkerId(index * threads + thread) for thread in range(threads)]
        alone = len(self._addresses) == 1
        out, err = (None, None) if self.plane is None else self.plane.outputs(workers, alone=alone)
        addresses, descriptors = tuple(self._addresses), (listener.fileno(), self.held, writing, theirs.fileno())
        process = subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]],
            env={**os.environ, SPAWNED_VARIABLE: Spawned(index, addresses, *descriptors, server).to_environment()},
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
        supervised = Supervised(index, process.pid, workers, Inquiry(Link(ours, send_s_max=SEND_S_MAX)))
        if server is None:
            supervised.joined.update(workers)
        self.children.append(_Child(process, reading, supervised))
        return supervised


def run_processes(config: Config, stop: Stop, plane: ControlPlane | None = None) -> None:
    """Start every process of `config` and wait for all of them, and those that join, to end."""
    family = _Family(config, plane)
    try:
        family.found()
        with plane.overseeing(family, stop) if plane is not None else nullcontext():
            _watch(family, stop)
        _raise_failure(family, stop)
    finally:
        family.close()


def tell(report: str, error: BaseException, spawned: Spawned | None) -> None:
    """Give a report to the launcher if there is one, else print it."""
    if spawned is None:
        print(report, file=sys.stderr, flush=True)
    else:
        tell_failure(spawned, report, error)


def live_as_child(spawned: Spawned) -> None:
    """Share the output with the other processes line by line, and end when the launcher has ended.

    To be called once signals are handled.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)

    def hold() -> None:
        os.read(spawned.lifeline_fd, 1)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(END_WHEN_ASKED_S)
        os._exit(1)

    threading.Thread(target=hold, name="lifeline", daemon=True).start()
    tell_up(spawned)


def _listen() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=128)


def _address(listener: socket.socket) -> Address:
    host, port = listener.getsockname()
    return host, port


def _watch(family: _Family, stop: Stop) -> None:
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


def _raise_failure(family: _Family, stop: Stop) -> None:
    if stop.reason is not None:
        raise JobStopped(stop.reason)
    codes = [child.process.returncode for child in family.children if not child.stranger]
    if not any(codes):
        return
    unasked = [child for child in family.children if child.process.returncode and not child.asked]
    # A joiner may have been taken in by the others before it knew; but what ended it otherwise did not end the job.
    if any(not child.stranger and (child.report is None or child.report[0] == 0) for child in unasked):
        unasked = [child for child in unasked if not child.stranger]
    reports = sorted((*child.report, child.process.returncode) for child in unasked if child.report is not None)
    killed = [f"job failed: {child.end()}" for child in unasked if child.process.returncode < 0]
    lines = [*killed, *(report for _, report, _ in reports[:1])]
    code = 1 if killed or not reports else max(1, reports[0][2])
    raise ProcessesFailed("\n".join(lines) or f"job failed: the processes exited with {codes}", code)
