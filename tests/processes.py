"""Commands and programs as real processes: started as in so many terminals, and waited for with a bound."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[1]
TIMEOUT_S = 180.0
COMPILING = "compiling for columns, once: this takes some seconds"
WAITING = "hailer: waiting for process "
DONE = re.compile(r"hailer: \S+ ended after .*")

Command = tuple[str | Path, ...]

_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_next_port = count(20_000 + 1_500 * (_WORKER % 8) + os.getpid() % 500)
"""Each of pytest's workers has ports of its own: what one has found free another must not find free as well, before
somebody listens there. Other runs of the tests are likely to be elsewhere."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> list[str]:
        """Its lines on standard error, but for those that only a busy machine has."""
        return [line for line in self.err.splitlines() if not line.startswith(WAITING)]

    @property
    def complaints(self) -> list[str]:
        """What it said, but for how a job ended well, and that something is compiled."""
        return [line for line in self.said if not line.endswith(COMPILING) and not DONE.match(line)]

    @property
    def lines(self) -> list[str]:
        """What it printed, once it is clear that it ended well and complained of nothing."""
        assert (self.code, self.complaints) == (0, []), (self.code, self.complaints[:20], self.out[-2000:])
        return self.out.splitlines()


def start(command: Command, state: Path, cwd: Path = ROOT, *, secret: str = "secret") -> subprocess.Popen[str]:
    """Start a command; its cluster secret lives in `state`."""
    return subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, "HAILER_SECRET_FILE": str(state / secret)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def started(command: Command, state: Path, cwd: Path = ROOT) -> Iterator[subprocess.Popen[str]]:
    """A process that runs a command, for as long as the block lasts."""
    process = start(command, state, cwd)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def end(process: subprocess.Popen[str], timeout_s: float = TIMEOUT_S) -> Ended:
    """Wait for a process to end, or kill it and fail."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"{process.args!r} did not end within {timeout_s} s; it said\n{out}\n{err}") from None
    return Ended(process.returncode, out, err)


def run(*command: str | Path, state: Path, cwd: Path = ROOT, timeout_s: float = TIMEOUT_S) -> Ended:
    """Run a command to its end."""
    return end(start(command, state, cwd), timeout_s)


def run_together(commands: Sequence[Command], state: Path, cwd: Path = ROOT) -> list[Ended]:
    """Start all commands at once, and wait for the end of each."""
    with ExitStack() as stack:
        processes = [stack.enter_context(started(command, state, cwd)) for command in commands]
        return [end(process) for process in processes]


def wait_for_line(process: subprocess.Popen[str], line: str) -> None:
    """Read a process's output until it prints `line`."""
    assert process.stdout is not None
    for said in process.stdout:
        if said.rstrip() == line:
            return
    raise AssertionError(f"{process.args!r} ended without saying {line!r}")


@dataclass(frozen=True, slots=True)
class Program:
    """A program in a file, whose folder also has the secret that its processes share."""

    path: Path

    @staticmethod
    def write(folder: Path, source: str) -> Program:
        """Put a program into `folder`."""
        path = folder / "program.py"
        path.write_text(dedent(source), encoding="utf-8")
        return Program(path)

    def start(self, *arguments: str, secret: str = "secret") -> subprocess.Popen[str]:
        """Start it."""
        return start((sys.executable, self.path, *arguments), self.path.parent, secret=secret)

    def run(self, *arguments: str) -> Ended:
        """Start it and wait for its end."""
        return end(self.start(*arguments))

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Start it for the length of a block; what is left of it then is killed."""
        with started((sys.executable, self.path, *arguments), self.path.parent) as process:
            yield process


def free_ports(number: int) -> int:
    """The first of `number` ports in a row that nobody listens at, below those that the kernel gives out by itself."""
    while True:
        first = next(_next_port)
        with ExitStack() as sockets:
            try:
                for port in range(first, first + number):
                    sockets.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            for _ in range(number - 1):
                next(_next_port)
            return first
