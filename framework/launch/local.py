"""All processes of a computation on this machine, started and watched by the one that the user started.

Each child runs the user's own command again and is told who it is (`Spawned`). The launcher binds the ports, so that
two jobs never collide; a lifeline ends the children if the launcher dies; and of the children's reports it prints the
one that tells most. With a control plane, a link to each child carries requests while the job runs.
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
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from io import TextIOWrapper
from math import inf

from framework.errors import HailerError, JobStopped
from framework.launch.config import SPAWNED_VARIABLE, Config, Spawned
from framework.launch.link import Inquiry, Link
from framework.launch.plane import ControlPlane, Supervised
from framework.launch.report import distance
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
    reports: int
    """The reading end of the pipe for its report."""
    supervised: Supervised
    said: bytes = b""
    asked: bool = False
    """Whether it was asked to end, so that how it ends is no news."""


@dataclass(slots=True)
class _Family:
    """All children, and what each new one is given."""

    config: Config
    plane: ControlPlane | None
    children: list[_Child] = field(default_factory=list)
    supervised: list[Supervised] = field(default_factory=list)
    held: int = -1
    """What children hold on to: reading from it ends when this process does."""
    lifeline: int = -1
    """The writing end; it closes with this process, however that ends."""

    def __post_init__(self) -> None:
        self.held, self.lifeline = os.pipe()

    def start_process(self, index: int, listener: socket.socket, addresses: tuple[Address, ...]) -> None:
        """Start the process with this number: the user's own command again, told who it is."""
        threads = self.config.threads
        reading, writing = os.pipe()
        ours, theirs = socket.socketpair()
        workers = [WorkerId(index * threads + thread) for thread in range(threads)]
        out, err = (None, None) if self.plane is None else self.plane.outputs(workers, alone=len(addresses) == 1)
        spawned = Spawned(index, addresses, listener.fileno(), self.held, writing, theirs.fileno())
        process = subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]],
            env={**os.environ, SPAWNED_VARIABLE: spawned.to_environment()},
            pass_fds=(listener.fileno(), self.held, writing, theirs.fileno()),
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
        self.supervised.append(supervised)
        self.children.append(_Child(process, reading, supervised))

    def running(self) -> list[_Child]:
        return [child for child in self.children if child.process.poll() is None]

    def signal(self, number: int) -> None:
        for child in self.running():
            child.asked = True
            child.process.send_signal(number)

    def close(self) -> None:
        for child in self.running():
            child.process.kill()
            child.process.wait()
        for child in self.children:
            os.close(child.reports)
            child.supervised.inquiry.close()
        os.close(self.held)
        os.close(self.lifeline)


def run_processes(config: Config, stop: Stop, plane: ControlPlane | None = None) -> None:
    """Start every process of `config` and wait for all of them to end."""
    family = _Family(config, plane)
    try:
        _start(family)
        with plane.overseeing(family.supervised, stop) if plane is not None else nullcontext():
            _watch(family, stop)
        _raise_failure(family, stop)
    finally:
        family.close()


def tell(report: str, error: BaseException, spawned: Spawned | None) -> None:
    """Give a report to the launcher if there is one, else print it."""
    if spawned is None:
        print(report, file=sys.stderr, flush=True)
        return
    with suppress(BrokenPipeError):  # the launcher is gone, and nobody reads
        os.write(spawned.report_fd, json.dumps([distance(error), report]).encode())


def live_as_child(spawned: Spawned) -> None:
    """Share the output with the other processes line by line, and end when the launcher has ended."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)

    def hold() -> None:
        os.read(spawned.lifeline_fd, 1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(END_WHEN_ASKED_S)
        os._exit(1)

    threading.Thread(target=hold, name="lifeline", daemon=True).start()


def _start(family: _Family) -> None:
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=128) for _ in family.config.addresses]
    addresses = tuple((host, port) for host, port in (listener.getsockname() for listener in listeners))
    try:
        for index, listener in enumerate(listeners):
            family.start_process(index, listener, addresses)
    finally:
        for listener in listeners:
            listener.close()


def _watch(family: _Family, stop: Stop) -> None:
    """Until every child has ended. The pipes of their reports tell when one does."""
    ask_s = kill_s = inf
    with selectors.DefaultSelector() as selector:
        for child in family.children:
            selector.register(child.reports, selectors.EVENT_READ, child)
        while selector.get_map():
            for key, _ in selector.select(POLL_S):
                data = os.read(key.fd, 65_536)
                key.data.said += data
                if not data:
                    selector.unregister(key.fd)
                    if key.data.process.wait() != 0:
                        ask_s = min(ask_s, time.monotonic() + END_BY_THEMSELVES_S)
            if stop.reason is not None:
                ask_s = min(ask_s, time.monotonic())
            if time.monotonic() >= ask_s and kill_s == inf:
                family.signal(signal.SIGTERM)
                kill_s = time.monotonic() + END_WHEN_ASKED_S
            if time.monotonic() >= kill_s:
                family.signal(signal.SIGKILL)


def _raise_failure(family: _Family, stop: Stop) -> None:
    if stop.reason is not None:
        raise JobStopped(stop.reason)
    codes = [child.process.returncode for child in family.children]
    if not any(codes):
        return
    reports = sorted(
        (*json.loads(child.said), child.process.returncode)
        for child in family.children
        if child.said and not child.asked
    )
    killed = [
        f"job failed: process {index} was ended by {signal.Signals(-child.process.returncode).name}"
        for index, child in enumerate(family.children)
        if child.process.returncode < 0 and not child.asked
    ]
    lines = [*killed, *(report for _, report, _ in reports[:1])]
    code = 1 if killed or not reports else max(1, reports[0][2])
    raise ProcessesFailed("\n".join(lines) or f"job failed: the processes exited with {codes}", code)
