"""A job that `hailer run` has started in a folder, and that the `hailer` command steers; nothing is left of it."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from operators.control import cli

HAILER = Path(sys.executable).with_name("hailer")
END_S = 120.0
POLL_S = 0.05


class JobWentWrong(Exception):
    """What a job or a command did that it must not do."""


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended."""

    code: int
    text: str
    """What it printed, errors too."""

    @property
    def last(self) -> str:
        """Its last line."""
        return (self.text.splitlines() or [""])[-1]


class Speech:
    """A `hailer` command under way: in a process of its own, though not one that Python must start in."""

    def __init__(self, folder: Path, number: int, arguments: tuple[str, ...]) -> None:
        self.arguments = arguments
        self.began_s = time.monotonic()
        self._heard = folder / f"command-{number}.txt"
        self._process: BaseProcess = multiprocessing.get_context("fork").Process(
            target=_speak, args=(folder, self._heard, arguments), daemon=True
        )
        self._process.start()

    @property
    def ended(self) -> bool:
        """Whether it has."""
        return not self._process.is_alive()

    def end(self, timeout_s: float = END_S) -> Said:
        """Wait for its end."""
        self._process.join(timeout_s)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
            self._process.join()
            raise JobWentWrong(f"`hailer {' '.join(self.arguments)}` did not end within {timeout_s:g} s")
        said = Said(code, self._heard.read_text(encoding="utf-8"))
        self._heard.unlink()
        if code not in (0, 1) or "Traceback" in said.text or "mistake in Hailer" in said.text:
            raise JobWentWrong(f"`hailer {' '.join(self.arguments)}` ended with {code}; it said\n{said.text}")
        return said


class RunningJob:
    """A job in a folder."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self._process = process
        self._commands = 0

    @property
    def ended(self) -> bool:
        """Whether it has."""
        return self._process.poll() is not None

    def begin(self, *arguments: str) -> Speech:
        """Start a command."""
        self._commands += 1
        return Speech(self.folder, self._commands, arguments)

    def command(self, *arguments: str, timeout_s: float = END_S) -> Said:
        """A command, to its end."""
        return self.begin(*arguments).end(timeout_s)

    def status(self) -> dict[str, Any] | None:
        """How the job is, if it says."""
        said = self.command("status", "--json")
        found: dict[str, Any] | None = json.loads(said.text) if said.code == 0 else None
        return found

    def wait_for_keys(self, keys: int, timeout_s: float = END_S) -> None:
        """Wait until there is a state for so many keys."""
        deadline_s = time.monotonic() + timeout_s
        while sum(worker["keys"] for worker in (self.status() or {"workers": ()})["workers"]) < keys:
            if self.ended or time.monotonic() > deadline_s:
                raise JobWentWrong(f"no {keys:,} keys within {timeout_s:g} s; the job said\n{self.errors()}")
            time.sleep(POLL_S)

    def end(self) -> None:
        """Wait for its end, which must be a good one."""
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise JobWentWrong(
                f"the job did not end within {END_S:g} s of its input; it said\n{self.errors()}"
            ) from None
        if code or "Traceback" in self.errors():
            raise JobWentWrong(f"the job ended with {code}; it said\n{self.errors()}")

    def errors(self) -> str:
        """What it has written to its standard error."""
        return (self.folder / "errors.txt").read_text(encoding="utf-8")

    def rows(self, output: str) -> Iterator[Any]:
        """What came out by an output that was written to the directory of its name."""
        for path in sorted((self.folder / output).glob("*.jsonl")):
            with path.open(encoding="utf-8") as lines:
                yield from (json.loads(line)["record"] for line in lines)


@contextmanager
def running_job(folder: Path, job: Path, *flags: str, environment: Mapping[str, str]) -> Iterator[RunningJob]:
    """A job for as long as the block lasts; raises if a process of it is left."""
    with (folder / "errors.txt").open("wb") as errors:
        process = subprocess.Popen(
            [str(HAILER), "run", str(job), *flags],
            cwd=folder,
            env={**os.environ, **environment, "HAILER_SECRET_FILE": str(folder / "secret")},
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
        )
    try:
        yield RunningJob(folder, process)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        left = _left_in(folder)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    if left:
        raise JobWentWrong(f"processes were left: {left}")


def _speak(folder: Path, heard: Path, arguments: tuple[str, ...]) -> None:
    os.chdir(folder)
    with heard.open("w", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
        sys.argv = ["hailer", *arguments]
        cli.main()


def _left_in(folder: Path, timeout_s: float = 5.0) -> list[int]:
    """The processes that still run in a folder, after a while."""
    deadline_s = time.monotonic() + timeout_s
    while left := [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _runs_in(pid, folder)]:
        if time.monotonic() > deadline_s:
            break
        time.sleep(POLL_S)
    return left


def _runs_in(pid: int, folder: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder
    except OSError:  # it has ended, or is another user's
        return False
