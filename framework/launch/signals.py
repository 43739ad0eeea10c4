"""Ctrl-C and SIGTERM: the first asks the workers to end, the second ends the process at once, which is told meanwhile.

Where workers leave when they are asked to (`Worker.leaves_when_asked`: those that have joined, and those whose program
looks out for it), the first SIGTERM asks for that, and the next is the first of the above.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from framework.errors import ConfigError, JobStopped
from framework.worker.worker import Worker

TELL_S = 1.0
"""How long a job may take to end after Ctrl-C, before who waits is told what another one does."""

ERASE = "\r\x1b[K"


class Stop:
    """A request to end, and whom it concerns."""

    def __init__(self, *, tells: bool = False) -> None:
        """`tells`: somebody waits for this process to end, and is told how to end it at once."""
        self.reason: str | None = None
        self.signal: int | None = None
        self._workers: Sequence[Worker] = ()
        self._tells = tells
        self._telling: threading.Timer | None = None

    def watch(self, workers: Sequence[Worker]) -> None:
        """Pass a request on to these workers, now if there was one already."""
        self._workers = workers
        if self.reason is not None:
            self.request(self.reason)

    def request(self, reason: str) -> None:
        """Ask every worker to end at its next step."""
        self.reason = reason
        for worker in self._workers:
            worker.request_stop(reason)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Request a stop on Ctrl-C and SIGTERM while the block runs."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            if self._telling is not None:
                self._telling.cancel()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM and self._ask_to_leave():
            return
        if self.signal is not None:
            os._exit(128 + number)
        self.signal = number
        if self._tells and number == signal.SIGINT:
            self._telling = threading.Timer(TELL_S, _tell_what_another_does)
            self._telling.daemon = True
            self._telling.start()
        self.request(f"process {os.getpid()} received {signal.Signals(number).name}")
        if len(self._workers) == 1 and not self._workers[0].stepping:
            # The program runs in this thread and may be asleep; a step would end by itself.
            raise JobStopped(self.reason)

    def _ask_to_leave(self) -> bool:
        """Whether leaving is the thing to do, and was not asked for yet."""
        if not self._workers or not all(worker.leaves_when_asked for worker in self._workers):
            return False
        if any(worker.asked_to_leave for worker in self._workers):
            return False
        for worker in self._workers:
            worker.ask_to_leave()
        return True


def _tell_what_another_does() -> None:
    erase = ERASE if sys.stderr.isatty() else ""  # the line that shows how far a job is
    print(f"{erase}hailer: the job is still ending; Ctrl-C again ends it at once", file=sys.stderr, flush=True)


def exit_code(error: BaseException, stop: Stop) -> int:
    """What the process exits with after `error`."""
    if isinstance(error, ConfigError):
        return 2
    if isinstance(error, JobStopped) and stop.signal is not None:
        return 128 + stop.signal
    return 1
