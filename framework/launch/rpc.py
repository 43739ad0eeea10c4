"""Requests from the supervisor to the workers of a process, and their answers: one JSON object per line.

A worker executes a request in its own thread, between its steps, and never waits for the supervisor: one thread reads
requests, another writes answers. A request that it does not get to in time is not executed at all, so that one that the
supervisor has given up on has had no effect.

A local child inherits its end of a socket pair, which nobody else can reach; a link from another machine is
authenticated before it is passed here. What requests mean is decided above.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as WaitedTooLong
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any
from weakref import WeakValueDictionary

from framework.errors import HailerError, NoAnswer, RequestFailed
from framework.membership.members import WorkerId
from framework.worker.worker import Worker

RequestHandler = Callable[[Worker, str, Mapping[str, Any]], Any]
"""What a worker answers to a request with these arguments: anything that JSON can say."""

LINE_BYTES_MAX = 16 * 1024 * 1024
"""A longer line is refused on the way out, and ends the link on the way in."""

LAST_ANSWERS_S = 1.0
"""How long a process that ends waits for its supervisor to take its answers."""

GRACE_S = 1.0
"""How much longer than a worker has for its answer the answer may take to arrive."""


class RpcLink:
    """JSON objects over a socket. One thread may receive; any may send."""

    def __init__(self, connection: socket.socket, *, send_s_max: int | None = None) -> None:
        """`send_s_max`: how long the other end may leave what was sent unread, before sending fails."""
        if send_s_max is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", send_s_max, 0))
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._sending = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one object; `OSError` if the other end is gone, or does not read."""
        line = json.dumps(message, ensure_ascii=False).encode() + b"\n"
        if len(line) > LINE_BYTES_MAX:
            raise RequestFailed(f"a message of {len(line)} bytes exceeds the limit of {LINE_BYTES_MAX}; ask for less")
        with self._sending:
            self._connection.sendall(line)

    def receive(self) -> dict[str, Any] | None:
        """The next object, or None when the other end is gone or has sent something else."""
        try:
            line = self._lines.readline(LINE_BYTES_MAX + 1)
            message = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):
            message = None
        if isinstance(message, dict):
            return message
        self._lines.close()
        return None

    def close(self) -> None:
        """End the link; a thread that waits in `receive` gets None, and closes its own part."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class RpcClient:
    """The supervisor's end of the link: asks the workers of one process."""

    def __init__(self, link: RpcLink) -> None:
        self._link = link
        self._waiting: WeakValueDictionary[int, PendingReply] = WeakValueDictionary()
        """By request. The reply to one that has timed out is no longer referenced, and so forgotten."""
        self._asked = 0
        self._lock = threading.Lock()
        self._ended = False
        threading.Thread(target=self._receive, name="rpc client", daemon=True).start()

    def ask(
        self, worker: WorkerId, request: str, arguments: Mapping[str, Any] | None = None, *, within_s: float
    ) -> Any:
        """What `worker` answers. It begins within `within_s`, or not at all: `NoAnswer` says that nothing was done."""
        return self.begin(worker, request, arguments, within_s=within_s).result()

    def begin(
        self, worker: WorkerId, request: str, arguments: Mapping[str, Any] | None = None, *, within_s: float
    ) -> PendingReply:
        """Ask, and let `PendingReply.result` wait for the answer: several workers can be asked at once."""
        reply = PendingReply(worker, within_s)
        with self._lock:
            number = self._asked
            self._asked += 1
            if self._ended:
                reply.fail_ended()
            else:
                self._waiting[number] = reply
        message = {"id": number, "worker": worker, "request": request, "within_s": within_s, "with": arguments or {}}
        if not reply.answer.done():
            try:
                self._link.send(message)
            except OSError:  # a part of it may have been sent, so nothing can follow
                self._link.close()
                self._end()
        return reply

    def close(self) -> None:
        """Close the link; requests that wait for an answer fail."""
        self._link.close()

    def _receive(self) -> None:
        while (message := self._link.receive()) is not None:
            with self._lock:
                reply = self._waiting.pop(message.get("id", -1), None)
            if reply is None:
                continue
            with suppress(InvalidStateError):
                if "error" in message:
                    reply.answer.set_exception(RequestFailed(str(message["error"])))
                else:
                    reply.answer.set_result(message.get("answer"))
        self._end()

    def _end(self) -> None:
        with self._lock:
            self._ended = True
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for reply in waiting:
            reply.fail_ended()


class PendingReply:
    """An answer that may not have come yet."""

    def __init__(self, worker: WorkerId, within_s: float) -> None:
        self.answer: Future[Any] = Future()
        self._worker = worker
        self._within_s = within_s

    def fail_ended(self) -> None:
        """The process has ended: no answer will come, if there is none yet."""
        with suppress(InvalidStateError):
            self.answer.set_exception(NoAnswer(f"the process of worker {self._worker} has ended, or does not listen"))

    def result(self) -> Any:
        """Wait for it, but no longer than the worker has and `GRACE_S`."""
        try:
            return self.answer.result(self._within_s + GRACE_S)
        except WaitedTooLong:
            raise NoAnswer(
                f"worker {self._worker} did not get to its next step within {self._within_s:g} s: "
                f"it is busy in a function of the job, or waits for input"
            ) from None


class RpcServer:
    """A process's end of the link: has its workers answer, each in its own thread, between its steps."""

    def __init__(self, link: RpcLink, workers: Sequence[Worker], handler: RequestHandler) -> None:
        self._link = link
        self._workers = {worker.id: worker for worker in workers}
        self._handler = handler
        self._answers: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="rpc answers", daemon=True)

    def start(self) -> None:
        """Answer from now on, until `finish`, or until the link ends."""
        threading.Thread(target=self._read, name="rpc requests", daemon=True).start()
        self._writer.start()

    def finish(self) -> None:
        """The workers have ended: see to it that their last answers are sent, if the supervisor takes them."""
        self._answers.put(None)
        self._writer.join(LAST_ANSWERS_S)

    def _read(self) -> None:
        while (message := self._link.receive()) is not None:
            match message:
                case {"id": int(number), "worker": int(id_), "request": str(), "within_s": float() | int()}:
                    worker = self._workers.get(id_)  # type: ignore[call-overload]
                    if worker is None:
                        self._answers.put({"id": number, "error": f"worker {id_} is not of this process"})
                        continue
                    deadline_s = time.monotonic() + message["within_s"]
                    worker.activator(partial(self._execute, worker, message, deadline_s)).activate_from_thread()
        self._link.close()

    def _execute(self, worker: Worker, message: dict[str, Any], deadline_s: float) -> None:
        """In the worker's thread. An exception is the answer to its request, and never ends the job."""
        if time.monotonic() > deadline_s:
            return
        try:
            answer = {"answer": self._handler(worker, message["request"], message.get("with") or {})}
        except HailerError as error:
            answer = {"error": str(error)}
        except Exception as error:
            answer = {"error": f"worker {worker.id} failed to answer {message['request']!r}: {error!r}"}
        self._answers.put({"id": message["id"], **answer})

    def _write(self) -> None:
        with suppress(OSError):  # the supervisor is gone, and the lifeline ends this process
            while (message := self._answers.get()) is not None:
                try:
                    self._link.send(message)
                except RequestFailed as error:
                    self._link.send({"id": message["id"], "error": str(error)})
                except (TypeError, ValueError) as error:
                    self._link.send({"id": message["id"], "error": f"the answer is not JSON: {error}"})
