"""The examples as their users run them: real processes, with a bound on how long they may take."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TIMEOUT_S = 120

_next_port = count(20_000 + os.getpid() % 10_000)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What it printed, once it is clear that it ended well."""
        assert (self.code, self.err) == (0, ""), self
        return self.out.splitlines()


def run(*command: str | Path, state: Path, cwd: Path = ROOT) -> Outcome:
    """Run a command to its end. Its cluster secret lives in `state`."""
    [outcome] = run_together([command], state=state, cwd=cwd)
    return outcome


def run_together(commands: Sequence[tuple[str | Path, ...]], state: Path, cwd: Path = ROOT) -> list[Outcome]:
    """Start all commands at once, as in so many terminals, and wait for the end of each."""
    with ExitStack() as stack:
        processes = [stack.enter_context(started(command, state, cwd)) for command in commands]
        return [outcome(process) for process in processes]


@contextmanager
def started(command: tuple[str | Path, ...], state: Path, cwd: Path = ROOT) -> Iterator[subprocess.Popen[str]]:
    """A process that runs a command, for as long as the block lasts."""
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def outcome(process: subprocess.Popen[str]) -> Outcome:
    """Wait for the end of a process."""
    out, err = process.communicate(timeout=TIMEOUT_S)
    return Outcome(process.returncode, out, err)


def example(name: str, *arguments: str | Path) -> tuple[str | Path, ...]:
    """The command that runs an example."""
    return sys.executable, EXAMPLES / name, *arguments


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
