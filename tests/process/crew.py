"""Jobs of real processes that run `counting.py`, and that a test lets grow, shrink and die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.hosts import Hosts

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "counting.py"
WAIT_S = 120.0
"""How long anything may take, on a machine that is busy with other things."""


@dataclass(slots=True)
class Crew:
    """The processes of one job, by number, and the files that they write."""

    directory: Path
    base_port: int
    """At which the first listens; without hosts, others at the next ones."""
    hosts: Hosts | None = None
    """Where each process has a machine of its own."""
    threads: int = 1
    founders: int = 2
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, *flags: str) -> None:
        """Start the processes that the job begins with; its feeder feeds at once."""
        for process in range(self.founders):
            self.run(process, *flags)
        for process in range(self.founders):
            self.wait_for(process, f"worker {process * self.threads} is up")

    def run(self, process: int, *flags: str, threads: int | None = None, secret: str = "secret") -> None:
        """Start one process."""
        shape = ("-n", str(self.founders), "-w", str(threads or self.threads), "-p", str(process))
        with self.said(process).open("wb") as file:
            self.processes[process] = subprocess.Popen(
                [*self._where(process), sys.executable, PROGRAM, *shape, *self._reach(process), self.directory, *flags],
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "HAILER_SECRET_FILE": str(self.directory / secret),
                },
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )

    def join(self, process: int, *flags: str, through: int = 0) -> None:
        """Start a process that joins."""
        self.run(process, "--join", str(through), *flags)

    def wait_until_in(self, *processes: int) -> None:
        """Wait until these processes are members, on all of their threads."""
        for process in processes:
            for thread in range(self.threads):
                self.wait_for(process, f"worker {process * self.threads + thread} is up")

    def leave(self, *processes: int) -> None:
        """Ask processes to leave, and wait until they have."""
        for process in processes:
            self.signal(process, signal.SIGTERM)
        for process in processes:
            assert self.code(process) == 0, self.text(process)

    def signal(self, process: int, number: signal.Signals) -> None:
        self.processes[process].send_signal(number)

    def code(self, process: int) -> int:
        """Wait for a process to end."""
        try:
            return self.processes[process].wait(WAIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"process {process} has not ended; {self.story()}") from None

    def said(self, process: int) -> Path:
        return self.directory / f"said-{process}"

    def text(self, process: int) -> str:
        """What a process has said so far."""
        return self.said(process).read_text()

    def wait_for(self, process: int, text: str) -> None:
        """Wait until a process has said something."""
        self.wait_while(lambda: text not in self.text(process), f"process {process} has not said {text!r}")

    def wait_while(self, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while condition():
            assert time.monotonic() < deadline_s, f"{what}; {self.story()}"
            time.sleep(0.01)

    def counted(self, worker: int) -> int:
        """How many bytes of counts a worker has written out so far."""
        path = self.directory / f"counts-{worker}"
        return path.stat().st_size if path.exists() else 0

    def goes_on(self, worker: int = 0) -> None:
        """Wait until a worker has written out more counts than now."""
        before = self.counted(worker)
        self.wait_while(lambda: self.counted(worker) <= before, f"worker {worker} counts no more")

    def finish(self) -> None:
        """Let the feeder stop, see all processes end well, and check every count."""
        (self.directory / "stop").touch()
        running = [process for process, popen in self.processes.items() if popen.poll() is None]
        assert {process: self.code(process) for process in running} == dict.fromkeys(running, 0), self.story()
        sent = json.loads((self.directory / "sent.json").read_text())
        counts = self.counts()
        wrong = {word: n for word, n in sent.items() if sorted(counts[word]) != list(range(1, n + 1))}
        assert not wrong
        assert counts.keys() == sent.keys()

    def counts(self) -> dict[str, list[int]]:
        """All counts of each word, on whichever worker."""
        counts: dict[str, list[int]] = defaultdict(list)
        for path in self.directory.glob("counts-*"):
            for line in path.read_text().splitlines():
                word, total = line.split()
                counts[word].append(int(total))
        return counts

    def story(self) -> str:
        """What all processes have said: the first thing to read of a failure."""
        return "\n".join(f"--- {process}\n{self.text(process)}" for process in self.processes)

    def _where(self, process: int) -> list[str]:
        return [] if self.hosts is None else self.hosts.on(process)

    def _reach(self, process: int) -> list[str]:
        """The flags that say where all processes up to this one listen, and those that the job begins with."""
        if self.hosts is None:
            return ["--base-port", str(self.base_port)]
        number = max(self.founders, process + 1)
        path = self.directory / f"hosts-{number}"
        path.write_text("".join(f"{self.hosts.address(host)}:{self.base_port}\n" for host in range(number)))
        return ["--hostfile", str(path)]

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
