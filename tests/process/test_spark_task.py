"""What runs in a task of Spark, without Spark: a process finds the hub, works, and ends when it should."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.launch.gateway import Gateway, StreamKind
from framework.launch.rpc import RpcLink
from tests.process.jobs import wait_until
from tests.process.test_scale import is_alive
from tests.processes import end

SECRET = secrets.token_bytes(32)

TASK = """
import sys

from operators.spark.launch.task import Ticket, run


class Program:
    name = "program"

    def prepare(self):
        return main, None


def main(worker):
    print(f"worker {worker.id} works", flush=True)
    if sys.argv[2] == "fail":
        raise ValueError("it went wrong")
    while sys.argv[2] == "wait":
        worker.step_or_park(1)


ticket = Ticket(0, 7, 1, ("127.0.0.1", int(sys.argv[1])), bytes.fromhex(sys.stdin.readline()))
print("the task returns", list(run(iter([ticket]), Program(), {})))
"""


@pytest.fixture
def hub() -> Iterator[Gateway]:
    hub = Gateway("127.0.0.1", SECRET)
    hub.expect(0, 7)
    yield hub
    hub.close()


class Task:
    """One task, and the driver's ends of its process's lines."""

    def __init__(self, folder: Path, hub: Gateway, how: str) -> None:
        self.task = start(folder, hub, how)
        found: list[dict[StreamKind, socket.socket]] = []
        wait_until(lambda: found.append(lines) if (lines := hub.take(0, 7)) else found)
        [self.lines] = found
        self.life = RpcLink(self.lines[StreamKind.LIFE])
        told = self.life.receive()
        assert told is not None
        self.pid: int = told["pid"]
        self.life.send({"addresses": [[told["host"], told["port"]]], "server": None})
        assert self.said(StreamKind.OUT, b"works\n") == b"worker 0 works\n"

    def said(self, line: StreamKind, until: bytes) -> bytes:
        """What comes on a line until it says this, or ends."""
        data = b""
        while not data.endswith(until) and (more := self.lines[line].recv(4096)):
            data += more
        return data

    def close(self) -> None:
        self.life.close()
        assert self.life.receive() is None
        for line in self.lines.values():
            line.close()


def start(folder: Path, hub: Gateway, how: str) -> subprocess.Popen[str]:
    (folder / "task.py").write_text(TASK)
    task = subprocess.Popen(
        [sys.executable, str(folder / "task.py"), str(hub.port), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert task.stdin is not None
    task.stdin.write(SECRET.hex() + "\n")
    task.stdin.flush()
    return task


def check_end(task: Task, code: int) -> None:
    """The driver is told the exit code, and so is Spark, by a task that went well."""
    assert task.life.receive() == {"exited": code}
    ended = end(task.task)
    assert (ended.code, ended.out, ended.err) == (0, f"the task returns [{code}]\n", "")
    assert not is_alive(task.pid)
    task.close()


@pytest.mark.parametrize(("how", "code"), [("work", 0), ("fail", 1)])
def test_a_process_runs_to_its_end(tmp_path: Path, hub: Gateway, how: str, code: int):
    task = Task(tmp_path, hub, how)
    news = task.said(StreamKind.NEWS, b"never")
    assert news.startswith(b'["up"]\n')
    assert (b"ValueError: it went wrong" in news) == (how == "fail")
    check_end(task, code)


@pytest.mark.parametrize(("word", "code"), [("end", 128 + signal.SIGINT), ("kill", -signal.SIGKILL)])
def test_a_process_ends_when_the_driver_says_so(tmp_path: Path, hub: Gateway, word: str, code: int):
    task = Task(tmp_path, hub, "wait")
    task.life.send({"do": word})
    check_end(task, code)


def test_a_process_ends_when_the_driver_is_gone(tmp_path: Path, hub: Gateway):
    task = Task(tmp_path, hub, "wait")
    task.close()
    ended = end(task.task)
    assert (ended.code, ended.out) == (0, f"the task returns [{128 + signal.SIGINT}]\n")
    assert not is_alive(task.pid)


def test_a_process_ends_when_its_task_is_killed(tmp_path: Path, hub: Gateway):
    task = Task(tmp_path, hub, "wait")
    task.task.kill()
    end(task.task)
    wait_until(lambda: not is_alive(task.pid))
    assert task.life.receive() is None
    task.close()


def test_a_second_copy_of_a_process_is_turned_away(tmp_path: Path, hub: Gateway):
    task = Task(tmp_path, hub, "wait")
    again = end(start(tmp_path, hub, "wait"))
    assert again.code == 1
    assert "PeerRefused: process 0 was started already, and is not started a second time" in again.err
    task.life.send({"do": "kill"})
    check_end(task, -signal.SIGKILL)
