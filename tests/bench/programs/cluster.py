"""Two processes of `rescale.py`, and others that join them at given moments."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.hosts import Hosts

TIMEOUT_S = 300
PORT = 7700


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent, and how fast."""

    keys: int
    records: int
    """Per epoch."""
    epoch_ms: float
    seconds: float
    wait_us: float = 0.0

    def arguments(self) -> list[str]:
        """As the program takes them."""
        return [str(value) for value in (self.keys, self.records, self.epoch_ms, self.seconds, self.wait_us)]


@dataclass(frozen=True, slots=True)
class Felt:
    """What came of it."""

    timeline: list[tuple[float, float]]
    """When each epoch was due, in seconds, and its latency in milliseconds."""
    joined: list[tuple[float, int]]
    joiners: list[dict[str, Any]]

    def longest_ms(self) -> float:
        """The longest latency."""
        return max(latency for _, latency in self.timeline)


@dataclass(frozen=True, slots=True)
class Here:
    """All processes are on this machine."""

    base_port: int

    def command(self, process: int) -> tuple[list[str], list[str]]:
        """What goes before the command that starts a process, and which flags say where it listens."""
        return [], ["--base-port", str(self.base_port)]


@dataclass(frozen=True, slots=True)
class Apart:
    """Each process has a host of its own."""

    hosts: Hosts
    folder: Path

    def command(self, process: int) -> tuple[list[str], list[str]]:
        """As `Here.command`."""
        path = self.folder / f"hosts-{process}"
        path.write_text("".join(f"{self.hosts.address(host)}:{PORT}\n" for host in range(max(2, process + 1))))
        return self.hosts.on(process), ["--hostfile", str(path)]


def run_cluster(load: Load, joins_s: list[float], places: Here | Apart | None = None) -> Felt:
    """Run `load` on two processes, here if nothing else is said, and let one more join at each of these seconds."""
    places = places or Here(_free_ports(2 + len(joins_s)))
    with ExitStack() as stack:
        founders = [stack.enter_context(_start(places, process, load)) for process in range(2)]
        joiners = [stack.enter_context(_start(places, 2 + index, load, "--join", "0")) for index in range(len(joins_s))]
        for process in (*founders, *joiners):
            stack.callback(process.kill)
        for joiner in joiners:
            _line(joiner)
        _line(founders[0])
        began_s = time.monotonic()
        for at_s, joiner in zip(joins_s, joiners, strict=True):
            time.sleep(max(0.0, began_s + at_s - time.monotonic()))
            assert joiner.stdin is not None
            joiner.stdin.write("\n")
            joiner.stdin.flush()
        outs = [process.communicate(timeout=TIMEOUT_S) for process in (*founders, *joiners)]
        assert all(process.returncode == 0 for process in (*founders, *joiners)), [err for _, err in outs]
    result = json.loads(outs[0][0].splitlines()[-1])
    return Felt(result["timeline"], result["joined"], [json.loads(out.splitlines()[-1]) for out, _ in outs[2:]])


def _start(places: Here | Apart, process: int, load: Load, *flags: str) -> subprocess.Popen[str]:
    program, (where, reach) = Path(__file__).parent / "rescale.py", places.command(process)
    return subprocess.Popen(
        [*where, sys.executable, str(program), "-n2", f"-p{process}", *reach, *flags, *load.arguments()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return line


def _free_ports(count: int) -> int:
    """The first of so many ports in a row that are free just now."""
    while True:
        with ExitStack() as stack:
            first = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            try:
                for port in range(first + 1, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except (OSError, OverflowError):
                continue
            return int(first)
