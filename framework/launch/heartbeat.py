"""Heartbeats: once a second a process tells its supervisor that it runs, and how its workers step.

From a thread of its own, so that it also beats while a worker is in a function of the job. What follows from it is the
supervisor's to decide (`framework.launch.liveness`).
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from types import CodeType
from typing import Self

from framework.launch.liveness import BEAT_S, WorkerBeat
from framework.launch.report import stack_lines
from framework.launch.status_pipe import Beat, LastBeat, send_if_read, send_status
from framework.membership.members import WorkerId
from framework.worker.worker import Worker


@dataclass(slots=True)
class _Watched:
    worker: Worker
    thread: int
    runner: CodeType
    """What runs the worker: its callers are not of interest."""
    steps: int = -1
    """As of the last beat."""

    def beat(self) -> WorkerBeat:
        worker, steps = self.worker, self.worker.steps
        idle = worker.parked
        stuck = steps == self.steps and not idle
        self.steps = steps
        return WorkerBeat(worker.id, steps, idle, self._stack() if stuck else ())

    def _stack(self) -> tuple[str, ...]:
        with suppress(Exception):  # whatever the user's loaders raise: who does not beat is taken for lost
            return stack_lines(sys._current_frames()[self.thread], self.runner)
        return ()


class HeartbeatThread:
    """Beats for the process that it is in, from `with` to the block's end. Any thread may call."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._watched: dict[WorkerId, _Watched] = {}
        self._ending = threading.Event()
        self._beating = threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, name="heartbeat", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        with self._beating:
            send_status(self._descriptor, LastBeat())

    def watch(self, worker: Worker) -> None:
        """Tell how `worker` steps; to be called in its own thread, by what runs it."""
        watched = _Watched(worker, threading.get_ident(), sys._getframe(1).f_code)
        with self._beating:
            self._watched[worker.id] = watched
            send_if_read(self._descriptor, watched.beat())  # before a step that may keep the interpreter lock

    def forget(self, worker: Worker) -> None:
        """The worker's program has ended."""
        with self._beating:
            del self._watched[worker.id]
            send_if_read(self._descriptor, WorkerBeat(worker.id, worker.steps, idle=True))

    def _run(self) -> None:
        while True:
            with self._beating:
                if self._ending.is_set():
                    return
                send_if_read(self._descriptor, Beat())
                for watched in self._watched.values():
                    send_if_read(self._descriptor, watched.beat())
            self._ending.wait(BEAT_S)
