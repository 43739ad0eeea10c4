"""Programs under test as real processes: written to a file, started, waited for with a bound."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended and what it said."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Program:
    """A program in a file, and the secret that its processes share."""

    path: Path

    @staticmethod
    def write(folder: Path, source: str) -> Program:
        """Put a program into `folder`."""
        path = folder / "program.py"
        path.write_text(dedent(source), encoding="utf-8")
        return Program(path)

    def start(self, *arguments: str, secret: str = "secret") -> subprocess.Popen[str]:
        """Start it."""
        environment = {**os.environ, "HAILER_SECRET_FILE": str(self.path.parent / secret)}
        return subprocess.Popen(
            [sys.executable, str(self.path), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> Ended:
        """Start it and wait for its end."""
        return end(self.start(*arguments))

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Start it for the length of a block; what is left of it then is killed."""
        process = self.start(*arguments)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def end(process: subprocess.Popen[str]) -> Ended:
    """Wait for a process to end, or kill it and fail."""
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"{process.args!r} did not end within {TIMEOUT_S} s; it said\n{out}\n{err}") from None
    return Ended(process.returncode, out, err)


def wait_for_line(process: subprocess.Popen[str], line: str) -> None:
    """Read a process's output until it prints `line`."""
    assert process.stdout is not None
    for said in process.stdout:
        if said.rstrip() == line:
            return
    raise AssertionError(f"{process.args!r} ended without saying {line!r}")


def free_base_port(processes: int) -> int:
    """A port that, with those after it, is free at this moment."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            base = int(probe.getsockname()[1])
        if base + processes < 65_536 and all(_is_free(base + index) for index in range(processes)):
            return base


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
