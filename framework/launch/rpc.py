"""The link between a process of a job and whoever supervises it: requests go down, answers come up.

One JSON object per line. A local child inherits its end of a socket pair, so that nobody else can speak on it; a link
from farther away has to prove who it is before it is handed here. What requests mean is not known here.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as WaitedTooLong
from contextlib import suppress
from typing import Any

from framework.errors import UserError, WorldError
from framework.membership.members import WorkerId

LINE_BYTES_MAX = 16 * 1024 * 1024
"""A longer line is refused on the way out, and ends the link on the way in."""

GRACE_S = 1.0
"""How much longer than a worker has for its answer the answer may take to arrive."""


class RequestFailed(UserError):
    """A worker could not do what it was asked for, and says why."""


class NoAnswer(WorldError):
    """A worker did not answer: it is busy, or gone."""


class RpcLink:
    """Objects over a socket. One thread may receive; any may send."""

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
        """End the link; whoever waits in `receive` is told, and releases its own part."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class RpcClient:
    """The supervisor's end: asks the workers of one process."""

    def __init__(self, link: RpcLink) -> None:
        self._link = link
        self._waiting: dict[int, tuple[WorkerId, Future[Any]]] = {}
        self._asked = 0
        self._lock = threading.Lock()
        self._ended = False
        threading.Thread(target=self._listen, name="inquiry", daemon=True).start()

    def ask(
        self, worker: WorkerId, request: str, arguments: Mapping[str, Any] | None = None, *, within_s: float
    ) -> Any:
        """What `worker` answers. It begins within `within_s`, or not at all: `NoAnswer` says that nothing was done."""
        return self.begin(worker, request, arguments, within_s=within_s).result()

    def begin(
        self, worker: WorkerId, request: str, arguments: Mapping[str, Any] | None = None, *, within_s: float
    ) -> PendingReply:
        """Ask, and let `PendingReply.result` wait for the answer: several workers can be asked at once."""
        answer: Future[Any] = Future()
        with self._lock:
            number = self._asked
            self._asked += 1
            if self._ended:
                answer.set_exception(_ended(worker))
            else:
                self._waiting[number] = worker, answer
        message = {"id": number, "worker": worker, "request": request, "within_s": within_s, "with": arguments or {}}
        if not answer.done():
            try:
                self._link.send(message)
            except OSError:  # a part of it may have been sent, so nothing can follow
                self._link.close()
                self._end()
        return PendingReply(worker, answer, within_s)

    def close(self) -> None:
        """Ask no more."""
        self._link.close()

    def _listen(self) -> None:
        while (message := self._link.receive()) is not None:
            with self._lock:
                _, answer = self._waiting.pop(message.get("id", -1), (None, None))
            if answer is None:
                continue
            with suppress(InvalidStateError):
                if "error" in message:
                    answer.set_exception(RequestFailed(str(message["error"])))
                else:
                    answer.set_result(message.get("answer"))
        self._end()

    def _end(self) -> None:
        with self._lock:
            self._ended = True
            waiting, self._waiting = self._waiting, {}
        for worker, answer in waiting.values():
            with suppress(InvalidStateError):
                answer.set_exception(_ended(worker))


def _ended(worker: WorkerId) -> NoAnswer:
    return NoAnswer(f"the process of worker {worker} has ended, or does not listen")


class PendingReply:
    """An answer that may not have come yet."""

    def __init__(self, worker: WorkerId, answer: Future[Any], within_s: float) -> None:
        self._worker = worker
        self._answer = answer
        self._within_s = within_s

    def result(self) -> Any:
        """Wait for it, with a bound."""
        try:
            return self._answer.result(self._within_s + GRACE_S)
        except WaitedTooLong:
            raise NoAnswer(
                f"worker {self._worker} did not get to its next step within {self._within_s:g} s: "
                f"it is busy in a function of the job, or waits for input"
            ) from None
