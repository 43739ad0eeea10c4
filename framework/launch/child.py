"""What a process that a launcher started does besides its work: tells how it goes, and ends when the launcher does."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from io import TextIOWrapper

from framework.launch.config import Spawned
from framework.launch.launcher import END_WHEN_ASKED_S
from framework.launch.status_pipe import tell_failure, tell_up


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
