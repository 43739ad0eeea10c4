"""The terminal of `hailer run`: the output of all processes, line by line, above a line that shows how far the job is.

Output that goes to no terminal passes through untouched, straight from the processes; so other programs can read it.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from framework.launch.output_lines import whole_lines
from framework.membership.members import WorkerId
from operators.control.job_messages import JobProgress
from operators.control.render import show_times

DRAIN_S = 5.0
"""How long what a process has printed may take to come out after it has ended."""
ERASE = b"\r\x1b[K"


class Terminal:
    """Takes the output of processes and shows it, with a progress line below if standard error is a terminal."""

    def __init__(self, *, prefix: bool | None = None) -> None:
        """`prefix`: whether each line begins with its workers; None: if a terminal shows several processes."""
        self.shows_line = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._prefix = prefix
        self._gone: Callable[[], None] = lambda: None
        self._line = b""
        self._lock = threading.Lock()
        self._pumps: list[threading.Thread] = []

    def on_gone(self, gone: Callable[[], None]) -> None:
        """Call `gone` when nobody reads the output any more."""
        self._gone = gone

    def outputs(self, workers: Sequence[WorkerId], *, alone: bool) -> tuple[int | None, int | None]:
        """Descriptors for a process's standard output and error; None for what passes through."""
        return self._outlet(workers, 1, alone), self._outlet(workers, 2, alone)

    def show_line(self, text: str) -> None:
        """Replace the progress line."""
        with self._lock:
            if self.shows_line:
                self._line = text.encode()
                self._write(2, ERASE + self._line)

    def close(self) -> None:
        """Show what is left, and clear the progress line."""
        for pump in self._pumps:
            pump.join(DRAIN_S)
        self.show_line("")

    def _outlet(self, workers: Sequence[WorkerId], stream: int, alone: bool) -> int | None:
        terminal = os.isatty(stream)
        prefixed = terminal and not alone if self._prefix is None else self._prefix
        if not prefixed and not (self.shows_line and terminal):
            return None
        reading, writing = os.pipe()
        head = prefix_of(workers).encode() if prefixed else b""
        pump = threading.Thread(target=self._pump, args=[reading, stream, head], name="output", daemon=True)
        pump.start()
        self._pumps.append(pump)
        return writing

    def _pump(self, reading: int, stream: int, head: bytes) -> None:
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            for block in whole_lines(pipe.read):
                self._pass_on(stream, head, block.removesuffix(b"\n").split(b"\n"))

    def _pass_on(self, stream: int, head: bytes, lines: list[bytes]) -> None:
        text = b"".join(head + line + b"\n" for line in lines)
        with self._lock:
            if self._line:
                self._write(2, ERASE)
            if not self._write(stream, text):
                self._gone()
            if self._line:
                self._write(2, self._line)

    @staticmethod
    def _write(stream: int, data: bytes) -> bool:
        """Write all of it; whether anybody reads it."""
        with suppress(OSError):
            while data:
                data = data[os.write(stream, data) :]
        return not data


def prefix_of(workers: Sequence[WorkerId]) -> str:
    """What a line of a process begins with.

    >>> prefix_of([WorkerId(3)]), prefix_of([WorkerId(4), WorkerId(5)])
    ('3 | ', '4-5 | ')
    """
    return f"{workers[0]} | " if len(workers) == 1 else f"{workers[0]}-{workers[-1]} | "


def columns() -> int:
    """How wide the terminal is."""
    return shutil.get_terminal_size().columns


def progress_line(job: str, progress: JobProgress, width: int) -> str:
    """How far a job is, in one line that fits: what matters less goes first.

    >>> progress = JobProgress(workers=2, running_s=75.2, frontier=(41,), goal=None, silent=())
    >>> progress_line("wordcount", progress, 80)
    'wordcount   epoch 41   2 workers   1:15'
    >>> progress_line("wordcount", progress, 24)
    'wordcount   epoch 41'
    >>> progress_line("wordcount", progress, 12)
    'epoch 41'
    """
    minutes, seconds = divmod(int(progress.running_s), 60)
    goal = progress.goal
    silent = ", ".join(map(str, progress.silent))
    parts = [  # (how much it matters, text), in the order of the line
        (1, job),
        (0, f"epoch {show_times(progress.frontier)}" if progress.frontier else "ending"),
        (2, f"{goal.text}: {goal.bins_moved} of {goal.bins} bins" if goal and not goal.finished else ""),
        (3, f"no answer from {silent}" if silent else ""),
        (4, f"{progress.workers} worker{'s' * (progress.workers != 1)}"),
        (5, f"{minutes}:{seconds:02}"),
    ]
    for most in range(5, -1, -1):
        line = "   ".join(text for matters, text in parts if text and matters <= most)
        if len(line) < width:
            return line
    return line[: max(0, width - 1)]
