"""Processes in tasks of Spark: one Spark job with one task for each, so that processes can come and go one by one.

A stage of several tasks, barrier or not, cannot grow. Each job is submitted from a thread of the driver, which waits
for its end; the process in the task connects to the gateway here, and is from then on supervised like any other.
Whether the cluster has free slots is checked before anything is submitted: a task that waits for a slot which the job
itself occupies would wait for ever.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from math import inf
from typing import TYPE_CHECKING

from framework.errors import CannotStart, JobEnds
from framework.launch.launcher import Order, how_it_ended
from framework.launch.rpc import RpcLink
from framework.launch.supervisor import SEND_S_MAX
from framework.membership.members import Address
from framework.net.secret import RUN_BYTES, SECRET_BYTES
from framework.wire.credentials import Credentials, Encryption
from framework.wire.extensions import registered
from operators.spark.launch.cluster import (
    check_room,
    gateway_host,
    ship,
    shippable,
    what_failed,
    where_it_ran,
)
from operators.spark.launch.gateway import Gateway, OutputPump, StreamKind
from operators.spark.launch.task import Program, Ticket, run

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger("hailer.spark")

START_S_MAX = 60.0
"""How long a task may take until its process has reached the gateway."""

POLL_S = 0.1

CPU_TIME_S_MAX = 3.0
"""How old what a task has said of the CPU time of its process may be. Without news its machine may be out of reach."""

SETTLE_S = 5.0
"""How long Spark may take to see what has happened, and output to come out, once a process has ended."""


class SparkLauncher:
    """Starts the processes of one job on the executors of a Spark application."""

    def __init__(
        self,
        context: SparkContext,
        program: Program,
        *,
        threads: int,
        encryption: Encryption = Encryption.BETWEEN_MACHINES,
    ) -> None:
        ship(context)
        self._context = context
        self._program = program
        self._threads = threads
        self._credentials = Credentials(
            secrets.token_bytes(SECRET_BYTES), secrets.token_hex(RUN_BYTES), encryption=encryption
        )
        bound, self._host = gateway_host(context)
        self._gateway = Gateway(bound, self._credentials)
        self._name = f"hailer-{secrets.token_hex(4)}"
        self._attempts = count()
        self._tasks: list[_SparkProcess] = []

    def start(self, order: Order) -> Iterator[_SparkProcess]:
        """Submit all, wait until each has said where it listens, and tell all of them."""
        begins = order.server is None
        check_room(self._context, len(order.numbers), begins=begins, should_stop=order.should_stop)
        began_s = time.monotonic()
        tasks = [self._submit(number) for number in order.numbers]
        try:
            deadline_s = time.monotonic() + START_S_MAX
            for task in tasks:
                self._await(task, deadline_s, order)
            addresses = [task.address for task in tasks]
            for task in tasks:
                task.begin(addresses, order.server)
            if begins:
                many = "1 process runs" if len(tasks) == 1 else f"{len(tasks)} processes run"
                _log.info("%s in tasks of Spark after %.1f s", many, time.monotonic() - began_s)
        except BaseException:
            for task in tasks:
                self._gateway.forget(task.number, task.attempt)
                task.give_up()
            raise
        yield from tasks

    def close(self) -> None:
        """See the jobs of all tasks end."""
        deadline_s = time.monotonic() + SETTLE_S
        for task in self._tasks:
            task.close(deadline_s)
        self._gateway.close()

    def _submit(self, number: int) -> _SparkProcess:
        attempt = next(self._attempts)
        self._gateway.expect(number, attempt)
        ticket = Ticket(number, attempt, self._threads, (self._host, self._gateway.port), self._credentials)
        task = _SparkProcess(number, attempt, self._context, f"{self._name}-{number}-{attempt}")
        self._tasks.append(task)
        task.submit(ticket, self._program)
        return task

    def _await(self, task: _SparkProcess, deadline_s: float, order: Order) -> None:
        """Until the process has said where it listens."""
        connected = False
        while not task.registered.wait(POLL_S):
            if not connected and (streams := self._gateway.take(task.number, task.attempt)):
                task.connect(streams, order.outputs(task.number), order.unread)
                connected = True
            if order.should_stop():
                raise JobEnds("the job is about to end, and no process can start any more")
            if task.finished.is_set():
                raise CannotStart(f"process {task.number} could not start: {task.failure}")
            if time.monotonic() > deadline_s:
                raise CannotStart(
                    f"process {task.number} did not start within {START_S_MAX:g} s of its submission to Spark: its "
                    f"task got no slot, or it does not reach this process at {self._host}:{self._gateway.port}, which "
                    f"spark.driver.host and spark.driver.bindAddress set"
                )


class _SparkProcess:
    """One process, and the Spark job that it runs in."""

    def __init__(self, number: int, attempt: int, context: SparkContext, group: str) -> None:
        self.number = number
        self.attempt = attempt
        self.address: Address = ("", 0)
        self.pid = 0
        self.status_fd = -1
        self.rpc_socket: socket.socket
        self.registered = threading.Event()
        """It has said where it listens."""
        self.finished = threading.Event()
        """Its Spark job is over."""
        self.failure = "its task ended early"
        """Why the Spark job failed, if it did."""
        self._context = context
        self._group = group
        self._control: RpcLink | None = None
        self._pumps: list[OutputPump] = []
        self._at = ""
        self._cpu_time: tuple[float, float | None] = (-inf, None)
        """What its task has last said of the CPU time that it has used, and when that was."""
        self._code: int | None = None
        self._lost = False
        """It ended unseen."""
        self._over = threading.Event()
        """The process has ended, or nobody will ever know."""
        self._killed = False

    def submit(self, ticket: Ticket, program: Program) -> None:
        """Have Spark run it, in a thread that waits for that."""
        from pyspark import InheritableThread

        def work() -> None:
            try:
                self._context.setJobGroup(self._group, f"{program.name}: process {self.number}")
                task = partial(run, program=program, registered=shippable(registered()))
                self._context.parallelize([ticket], 1).mapPartitions(task).collect()
            except Exception as error:
                if not self.registered.is_set():  # of others more is known by other ways
                    self.failure = what_failed(error, where_it_ran(self._context, self._group))
            self.finished.set()
            # What the process says last comes another way than Spark's word that its task has ended.
            if not self._over.wait(SETTLE_S):
                self._disconnect()

        InheritableThread(target=work, name=self._group, daemon=True).start()

    def connect(
        self,
        streams: dict[StreamKind, socket.socket],
        outputs: tuple[int | None, int | None],
        unread: Callable[[], None],
    ) -> None:
        """Take its streams; on that for control it says next where it listens."""
        self.status_fd, self.rpc_socket = streams[StreamKind.STATUS].detach(), streams[StreamKind.RPC]
        self._control = RpcLink(streams[StreamKind.CONTROL], send_s_max=SEND_S_MAX)
        out, err = outputs
        self._pumps = [
            OutputPump(streams[StreamKind.STDOUT], out, 1, unread),
            OutputPump(streams[StreamKind.STDERR], err, 2, unread),
        ]
        threading.Thread(target=self._listen, args=[self._control], name=self._group, daemon=True).start()

    def begin(self, addresses: Sequence[Address], server: tuple[int, Address] | None) -> None:
        """Let it take up its work: where all listen, and who helps it to join."""
        self._tell({"addresses": addresses, "server": server})

    def poll(self) -> int | None:
        return self._code if self._over.is_set() else None

    def wait(self) -> int:
        """What it exited with. It is waited for once its status pipe has ended, so this is brief."""
        if not self._over.wait(SETTLE_S):
            self._disconnect()
        self._over.wait()
        assert self._code is not None
        return self._code

    def ending(self) -> str:
        assert self._code is not None
        how = "was lost with its executor" if self._lost else how_it_ended(self._code)
        return f"{how} on {self._at}"

    def cpu_time_s(self) -> float | None:
        told_s, cpu_time_s = self._cpu_time
        return cpu_time_s if time.monotonic() - told_s <= CPU_TIME_S_MAX else None

    def ask_to_end(self, *, up: bool) -> None:
        self._tell({"do": "end"})

    def kill(self) -> None:
        """End the process, and the Spark job if that has not begun or does not end by itself."""
        if not self._killed:
            self._killed = True
            if self._control is None:
                self._context.cancelJobGroup(self._group)
            self._tell({"do": "kill"})

    def give_up(self) -> None:
        """End a process that nobody supervises yet."""
        self.kill()
        if self._control is not None:
            os.close(self.status_fd)
            self.rpc_socket.close()

    def close(self, deadline_s: float) -> None:
        """See its Spark job end, and its output come out. Spark would try a task that was lost again."""
        if self._lost or not self.finished.wait(max(0.0, deadline_s - time.monotonic())):
            self._context.cancelJobGroup(self._group)
            self.finished.wait(SETTLE_S)
        for pump in self._pumps:
            pump.close(max(0.0, deadline_s - time.monotonic()))
        self._disconnect()

    def _listen(self, control: RpcLink) -> None:
        while (message := control.receive()) is not None:
            match message:
                case {"pid": int(pid), "at": str(at), "host": str(host), "port": int(port)}:
                    self.pid, self._at, self.address = pid, at, (host, port)
                    self.registered.set()
                case {"cpu_time_s": float() | None as cpu_time_s}:
                    self._cpu_time = time.monotonic(), cpu_time_s
                case {"exited": int(code)}:
                    self._code = code
        control.close()
        if self._code is None:
            self._code, self._lost = -signal.SIGKILL, True
        self._over.set()

    def _tell(self, message: dict[str, object]) -> None:
        with suppress(OSError):  # it is gone, and the other thread finds out
            if self._control is not None:
                self._control.send(message)

    def _disconnect(self) -> None:
        if self._control is not None:
            self._control.close()
