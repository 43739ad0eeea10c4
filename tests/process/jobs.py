"""A job that `hailer run` has started: fed for as long as a test needs it, asked, commanded, and checked at its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from framework.errors import HailerError
from operators.admin.client import JobClient
from operators.control import cli
from tests.processes import Ended, end, run, start

HAILER = str(Path(sys.executable).with_name("hailer"))
WAIT_S = 120.0
"""A bound for what hangs; folds may have to be compiled meanwhile, on a machine that is busy."""
LINE_S = 0.002

COUNTS = """
import time
from pathlib import Path
from operators import Job

job = Job("counts")

@job.dataflow
def counts(flow):
    words = flow.input("lines").flat_map(str.split).map(lambda word: (word, 1))
    count = lambda word, n, total: (total + n, [(word, total + n)])
    flow.output("counts", words.stateful_state_machine(count, initial=0, bins=16, name="count"))

if Path("late").exists():
    time.sleep(60)
"""


class Feed:
    """Writes a line of words every now and then into a pipe, until it is closed."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.words: Counter[str] = Counter()
        self.lines = 0
        # Open at both ends: a writer that neither waits for its reader nor is told that it has gone.
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._closing.wait(LINE_S):
            words = [f"w{(number * word) % 97}" for word in range(1, 6)]
            try:
                os.write(self._pipe, " ".join(words).encode() + b"\n")
            except BlockingIOError:  # it is full
                continue
            self.words.update(words)
            self.lines += 1
            number += 1

    def close(self) -> None:
        """Let the input end."""
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join()
            os.close(self._pipe)


@contextmanager
def feeding(folder: Path, source: str = COUNTS) -> Iterator[Feed]:
    """The job `counts.py`, and a pipe `lines` that is fed."""
    (folder / "counts.py").write_text(source)
    feed = Feed(folder / "lines")
    try:
        yield feed
    finally:
        feed.close()
        (folder / "lines").unlink()


@contextmanager
def running(folder: Path, job: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A job that reads `lines`, until the block ends."""
    process = start((HAILER, "run", f"{job}.py", "--input", "lines=lines", *arguments), folder, folder)
    try:
        wait_until(lambda: process.poll() is not None or list(folder.glob(".hailer/*/job.json")))
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        end(process)


@contextmanager
def counting(folder: Path, *arguments: str, source: str = COUNTS) -> Iterator[tuple[subprocess.Popen[str], Feed]]:
    """A job that counts the words of a feed, once its lines flow."""
    flags = ("--output", "counts=out", "--epoch-lines", "5", *arguments)
    with feeding(folder, source) as feed, running(folder, "counts", *flags) as process:
        wait_for_status(folder, flows)
        yield process, feed


def check_the_end(folder: Path, process: subprocess.Popen[str], feed: Feed) -> Ended:
    """The job comes to its end with its feed, and every word was counted from 1 to how often it occurs."""
    feed.close()
    ended = end(process)
    assert ended.code == 0, ended.err
    assert sorted((word, total) for _, (word, total) in written(folder / "out")) == sorted(
        (word, n) for word, count in feed.words.items() for n in range(1, count + 1)
    )
    return ended


def written(directory: Path) -> list[tuple[int, Any]]:
    """The epochs and records of an output's directory, as a glob finds them."""
    lines = [json.loads(line) for path in sorted(directory.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
    return [(line["epoch"], line["record"]) for line in lines]


def hailer(folder: Path, *arguments: str) -> Ended:
    """Run a command to its end."""
    return run(HAILER, *arguments, state=folder, cwd=folder)


def ask(folder: Path, *arguments: str) -> str:
    """What a command prints that has to end well."""
    ended = hailer(folder, *arguments)
    assert (ended.code, ended.err) == (0, ""), ended
    return ended.out


def say(folder: Path, *arguments: str) -> Ended:
    """A command without a process of its own: for the many whose words alone matter."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, chdir(folder), redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["hailer", *arguments])
        with pytest.raises(SystemExit) as exited:
            cli.main()
    code = exited.value.code
    assert isinstance(code, int), code
    return Ended(code, out.getvalue(), err.getvalue())


def status(folder: Path) -> dict[str, Any]:
    """How the job is."""
    return JobClient.of(folder, None).get("status")


def wait_for_status(folder: Path, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Ask until what is asked for is so; a job that has just begun has not much to tell."""
    found: list[dict[str, Any]] = []

    def fits() -> bool:
        try:
            found.append(status(folder))
        except HailerError:
            return False
        return bool(condition(found[-1]))

    wait_until(fits)
    return found[-1]


def flows(answer: dict[str, Any]) -> bool:
    """Whether lines are counted."""
    return bool(answer["frontier"]) and answer["frontier"][0] > 2 and bool(answer["bins"])


def wait_until(condition: Callable[[], object], wait_s: float = WAIT_S) -> None:
    """Look again and again, with a bound."""
    deadline_s = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {wait_s} s: {condition}"
        time.sleep(0.02)
