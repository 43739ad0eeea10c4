"""What answers the supervisor in each process: requests are executed in the worker's own thread, between its steps.

The worker never waits for the supervisor: one thread reads requests, another writes answers. A request that the worker
does not get to in time is not executed at all, so that whoever has given up on it knows that nothing happened.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

from framework.errors import HailerError
from framework.launch.rpc import RequestFailed, RpcLink
from framework.worker.worker import Worker

Answer = Callable[[Worker, str, Mapping[str, Any]], Any]
"""What a worker answers to a request with these arguments: anything that JSON can say."""


class Agent:
    """The process's end of the link to its supervisor."""

    def __init__(self, link: RpcLink, workers: Sequence[Worker], answer: Answer) -> None:
        self._link = link
        self._workers = {worker.id: worker for worker in workers}
        self._answer = answer
        self._answers: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def start(self) -> None:
        """Answer from now on, until the link or the process ends."""
        threading.Thread(target=self._read, name="agent reads", daemon=True).start()
        threading.Thread(target=self._write, name="agent writes", daemon=True).start()

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
        """In the worker's thread. Whatever a request runs into is its own answer, and never ends the job."""
        if time.monotonic() > deadline_s:
            return
        try:
            answer = {"answer": self._answer(worker, message["request"], message.get("with") or {})}
        except HailerError as error:
            answer = {"error": str(error)}
        except Exception as error:
            answer = {"error": f"worker {worker.id} failed to answer {message['request']!r}: {error!r}"}
        self._answers.put({"id": message["id"], **answer})

    def _write(self) -> None:
        with suppress(OSError):  # the supervisor is gone, and so will this process be: its lifeline says so
            while True:
                message = self._answers.get()
                try:
                    self._link.send(message)
                except RequestFailed as error:
                    self._link.send({"id": message["id"], "error": str(error)})
                except (TypeError, ValueError) as error:
                    self._link.send({"id": message["id"], "error": f"the answer is not JSON: {error}"})
