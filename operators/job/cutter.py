"""Cuts the epochs of a job's file outputs: drives `CutPolicy` on the worker that feeds the job.

A cut is sent at its own epoch, on a stream that all workers hear. The stream's frontier follows the inputs within
`TICK_S`, not epoch by epoch, so that many small epochs cost no more than few.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from framework.dataflow.scope import Scope
from framework.worker.worker import Worker
from operators.input.input import Input
from operators.job.parts import CutPolicy
from operators.stream import Stream

TICK_S = 0.05
"""How far the frontier of the cuts lags behind the inputs, and how often cuts follow while workers join or leave."""


class Cutter:
    """The cuts of one job, on one worker."""

    def __init__(self, worker: Worker, scope: Scope, clock: Callable[[], float] = time.monotonic) -> None:
        self._worker = worker
        self._input = Input[int]("cuts")
        self.cuts: Stream[int] = self._input.stream(scope).broadcast(name="broadcast cuts")
        """The stream of the cuts, on all workers."""
        self._clock = clock
        self._policy = CutPolicy(clock())
        self._epoch = 0
        self._last = 0
        self._ticks = False
        self._waits = False
        worker.membership.on_changed.append(lambda _: self._tick_soon())

    def advance_to(self, epoch: int) -> None:
        """The inputs are at this epoch. Hot path: once per epoch."""
        self._epoch = epoch
        if not self._ticks:
            self._tick_soon()

    def close(self) -> None:
        """Cut no more."""
        self._input.close()

    def _tick_soon(self) -> None:
        self._ticks = True
        self._worker.after(TICK_S, self._tick)

    def _tick(self) -> None:
        self._ticks = False
        if self._input.closed:
            return
        self._input.advance_to(self._epoch)
        if self._epoch == self._last:
            return
        now_s = self._clock()
        left_s = self._policy.left_s(now_s)
        # Who joins or leaves must not wait: parts that are unfinished keep a worker from leaving.
        if not left_s or self._worker.membership.changing:
            self._input.send(self._epoch)
            self._input.flush()
            self._last = self._epoch
            self._policy.cut(now_s)
        elif not self._waits:
            self._waits = True
            self._worker.after(left_s, self._wait_is_over)

    def _wait_is_over(self) -> None:
        self._waits = False
        self._tick()
