"""The executor's side of a process in a Spark task: connects to the gateway, and forks a child that runs the workers.

The task's Python process belongs to Spark, so it only waits: crashes, signals and descriptors of the job stay in the
child. The child ends when the task's process does, or when the driver says so or is gone; the task then returns what
the child exited with, as a task that went well, since Spark must not start it again. A copy that Spark starts
nevertheless is turned away by the gateway, and fails.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NoReturn, Protocol

from framework.launch.config import Config
from framework.launch.control_protocol import ControlPlane
from framework.launch.cpu_time import cpu_time_s
from framework.launch.execute import execute_as_child
from framework.launch.launcher import END_WHEN_ASKED_S
from framework.launch.liveness import BEAT_S
from framework.launch.rpc import RpcLink
from framework.launch.spawned import Spawned
from framework.membership.members import Address
from framework.net.connect import Patience, connect_link
from framework.net.link_socket import LinkSocket, socket_of
from framework.net.tunnel import Tunnel
from framework.wire.credentials import Credentials
from framework.wire.extensions import Extension, restore
from framework.wire.purpose import ExecutorStream
from framework.worker.worker import Worker
from operators.spark.launch.gateway import StreamKind, plain_stream

CONNECT_S_MAX = 30.0
"""How long the gateway may take to answer."""

GRACE_S = 2.0
"""How much longer than it has the child may take to end when asked to, before it is killed, and then its last words."""


class Program(Protocol):
    """What a job's workers run, in a form that Spark can ship."""

    @property
    def name(self) -> str:
        """What the job is called."""

    def prepare(self) -> tuple[Callable[[Worker], object], ControlPlane | None]:
        """What each worker of a process runs, and what answers the supervisor there; once in every process."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What one task is told: which process it is, and where the gateway of which run is."""

    process: int
    attempt: int
    threads: int
    gateway: Address
    credentials: Credentials


def run(tickets: Iterator[Ticket], program: Program, registered: dict[str, Extension]) -> Iterator[int]:
    """Run the process that a ticket names to its end; what it exited with."""
    for ticket in tickets:
        restore(registered)
        yield _Task(ticket).run(program)


class _Task:
    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self._tunnels: list[Tunnel] = []
        connections = {kind: self._connect(kind) for kind in StreamKind}
        host, family = (
            connections[StreamKind.CONTROL].getsockname()[0],
            socket_of(connections[StreamKind.CONTROL]).family,
        )
        self._listener = socket.create_server((host, 0), family=family, backlog=128)
        self._streams = {kind: self._plain(connection) for kind, connection in connections.items()}
        self._control = RpcLink(self._streams.pop(StreamKind.CONTROL))
        self._lifeline_read, self._lifeline_write = os.pipe()
        """The child's lifeline: on it the child is told who it is, and ends once it is closed."""
        self._child = -1
        self._ended = threading.Event()
        self._ending = threading.Lock()

    def run(self, program: Program) -> int:
        spawned = Spawned(
            self._ticket.process,
            (),
            listener_fd=self._listener.fileno(),
            lifeline_fd=self._lifeline_read,
            status_fd=self._streams[StreamKind.STATUS].fileno(),
            rpc_fd=self._streams[StreamKind.RPC].fileno(),
            run=self._ticket.credentials.run,
        )
        self._child = os.fork()
        if self._child == 0:
            _be_child(program, self._ticket, spawned, self._streams)
        host, port, *_ = self._listener.getsockname()
        self._control.send({"pid": self._child, "at": socket.gethostname(), "host": host, "port": port})
        os.close(self._lifeline_read)
        for ours in (self._listener, *self._streams.values()):
            ours.close()
        for tunnel in self._tunnels:
            tunnel.start()
        obeying = threading.Thread(target=self._obey, args=[spawned], name="orders", daemon=True)
        obeying.start()
        threading.Thread(target=self._tell_cpu_time, name="cpu time", daemon=True).start()
        code = self._wait()
        with suppress(OSError):
            self._control.send({"exited": code})
        self._control.close()
        obeying.join()
        deadline_s = time.monotonic() + GRACE_S
        for tunnel in self._tunnels:
            tunnel.drain(max(0.0, deadline_s - time.monotonic()))
        return code

    def _plain(self, connection: LinkSocket) -> socket.socket:
        """What the child can inherit."""
        stream, tunnel = plain_stream(connection)
        if tunnel is not None:
            self._tunnels.append(tunnel)
        return stream

    def _connect(self, kind: StreamKind) -> LinkSocket:
        ticket = self._ticket
        stream = ExecutorStream(ticket.attempt, ticket.process, kind.value)
        patience = Patience(time.monotonic() + CONNECT_S_MAX, lambda: False)
        connection, _ = connect_link(ticket.gateway, stream, ticket.credentials, patience)
        return connection

    def _obey(self, spawned: Spawned) -> None:
        """Do what the driver says, until the child has ended, or the driver has."""
        with os.fdopen(self._lifeline_write, "wb", buffering=0) as lifeline:
            while (message := self._control.receive()) is not None:
                match message:
                    case {"addresses": [*addresses], "server": server}:
                        told = replace(spawned, addresses=tuple(addresses), server=server).to_text()
                        with suppress(OSError):  # it may have ended already
                            lifeline.write(told.encode() + b"\n")
                    case {"do": "end"}:
                        lifeline.close()
                    case {"do": "kill"}:
                        self._kill()
        if not self._ended.wait(END_WHEN_ASKED_S + GRACE_S):
            self._kill()

    def _tell_cpu_time(self) -> None:
        """What the driver cannot read, and by which it tells a child that is busy from one that is stopped."""
        with suppress(OSError):  # the driver is gone
            while not self._ended.wait(BEAT_S):
                self._control.send({"cpu_time_s": cpu_time_s(self._child)})

    def _wait(self) -> int:
        """What the child exited with, or less than 0 for the signal that ended it."""
        os.waitid(os.P_PID, self._child, os.WEXITED | os.WNOWAIT)
        with self._ending:  # until it is reaped nobody else has its number
            self._ended.set()
            return os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])

    def _kill(self) -> None:
        with self._ending:
            if not self._ended.is_set():
                os.kill(self._child, signal.SIGKILL)


def _be_child(
    program: Program, ticket: Ticket, spawned: Spawned, streams: Mapping[StreamKind, socket.socket]
) -> NoReturn:
    """Run the workers in this process, which has just been forked, and exit. Nothing of the task is unwound."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(streams[StreamKind.STDOUT].fileno(), 1)
        os.dup2(streams[StreamKind.STDERR].fileno(), 2)
        _close_all_but(0, 1, 2, spawned.listener_fd, spawned.lifeline_fd, spawned.status_fd, spawned.rpc_fd)
        sys.stdout, sys.stderr = os.fdopen(1, "w", encoding="utf-8"), os.fdopen(2, "w", encoding="utf-8")
        told = _first_line(spawned.lifeline_fd)
        if told:
            main, control_plane = program.prepare()
            config = Config(
                threads=ticket.threads, secret=ticket.credentials.secret, encryption=ticket.credentials.encryption
            )
            execute_as_child(main, config, Spawned.from_text(told), control_plane=control_plane)
            code = 0
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)


def _first_line(descriptor: int) -> str:
    """The next line, or nothing at the end; what follows it is not read."""
    line = bytearray()
    while (octet := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += octet
    return line.decode()


def _close_all_but(*kept: int) -> None:
    """Close inherited descriptors, above all Spark's sockets: Spark must notice when the task's process ends."""
    for name in os.listdir("/dev/fd"):
        if int(name) not in kept:
            with suppress(OSError):
                os.close(int(name))
