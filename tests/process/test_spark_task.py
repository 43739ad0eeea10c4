"""What runs in a task of Spark, without Spark: a process finds the gateway, works, and ends when it should."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.launch.rpc import RpcLink
from framework.wire.credentials import Credentials, Encryption
from operators.spark.launch.gateway import Gateway, StreamKind
from tests.process.jobs import wait_until
from tests.process.test_scale import is_alive
from tests.processes import end

OURS = Credentials(secrets.token_bytes(32), "5e1f")
ENCRYPTED = replace(OURS, encryption=Encryption.ALWAYS)

TASK = """
import sys

from framework.wire.credentials import Credentials, Encryption
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


ours = Credentials(bytes.fromhex(sys.stdin.readline()), "5e1f", encryption=Encryption(sys.argv[3]))
ticket = Ticket(0, 7, 1, ("127.0.0.1", int(sys.argv[1])), ours)
print("the task returns", list(run(iter([ticket]), Program(), {})))
"""


@pytest.fixture(params=[OURS, ENCRYPTED], ids=["plain", "encrypted"])
def gateway(request: pytest.FixtureRequest) -> Iterator[Gateway]:
    gateway = Gateway("127.0.0.1", request.param)
    gateway.expect(0, 7)
    yield gateway
    gateway.close()


class Task:
    """One task, and the driver's ends of its process's streams."""

    def __init__(self, folder: Path, gateway: Gateway, how: str) -> None:
        self.task = start(folder, gateway, how)
        found: list[dict[StreamKind, socket.socket]] = []
        wait_until(lambda: found.append(streams) if (streams := gateway.take(0, 7)) else found)
        [self.streams] = found
        self.control = RpcLink(self.streams[StreamKind.CONTROL])
        told = self.control.receive()
        assert told is not None
        self.pid: int = told["pid"]
        self.control.send({"addresses": [[told["host"], told["port"]]], "server": None})
        assert self.said(StreamKind.STDOUT, b"works\n") == b"worker 0 works\n"

    def said(self, kind: StreamKind, until: bytes) -> bytes:
        """What comes on a stream until it says this, or ends."""
        data = b""
        while not data.endswith(until) and (more := self.streams[kind].recv(4096)):
            data += more
        return data

    def last_word(self) -> dict[str, Any] | None:
        """What the task says of itself, but for the CPU time of its process, which it tells every second."""
        while (said := self.control.receive()) is not None and "cpu_time_s" in said:
            assert said["cpu_time_s"] is None or said["cpu_time_s"] >= 0
        return said

    def close(self) -> None:
        self.control.close()
        assert self.control.receive() is None
        for stream in self.streams.values():
            stream.close()


def start(folder: Path, gateway: Gateway, how: str) -> subprocess.Popen[str]:
    (folder / "task.py").write_text(TASK)
    task = subprocess.Popen(
        [sys.executable, str(folder / "task.py"), str(gateway.port), how, gateway.credentials.encryption.value],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert task.stdin is not None
    task.stdin.write(OURS.secret.hex() + "\n")
    task.stdin.flush()
    return task


def check_end(task: Task, code: int) -> None:
    """The driver is told the exit code, and so is Spark, by a task that went well."""
    assert task.last_word() == {"exited": code}
    ended = end(task.task)
    assert (ended.code, ended.out, ended.err) == (0, f"the task returns [{code}]\n", "")
    assert not is_alive(task.pid)
    task.close()


@pytest.mark.parametrize(("how", "code"), [("work", 0), ("fail", 1)])
def test_a_process_runs_to_its_end(tmp_path: Path, gateway: Gateway, how: str, code: int):
    task = Task(tmp_path, gateway, how)
    status = task.said(StreamKind.STATUS, b"never")
    assert status.startswith(b'["up"]\n')
    assert (b"ValueError: it went wrong" in status) == (how == "fail")
    check_end(task, code)


@pytest.mark.parametrize(("word", "code"), [("end", 128 + signal.SIGINT), ("kill", -signal.SIGKILL)])
def test_a_process_ends_when_the_driver_says_so(tmp_path: Path, gateway: Gateway, word: str, code: int):
    task = Task(tmp_path, gateway, "wait")
    task.control.send({"do": word})
    check_end(task, code)


def test_a_process_ends_when_the_driver_is_gone(tmp_path: Path, gateway: Gateway):
    task = Task(tmp_path, gateway, "wait")
    task.close()
    ended = end(task.task)
    assert (ended.code, ended.out) == (0, f"the task returns [{128 + signal.SIGINT}]\n")
    assert not is_alive(task.pid)


def test_a_process_ends_when_its_task_is_killed(tmp_path: Path, gateway: Gateway):
    task = Task(tmp_path, gateway, "wait")
    task.task.kill()
    end(task.task)
    wait_until(lambda: not is_alive(task.pid))
    assert task.last_word() is None
    task.close()


def test_the_driver_is_told_whether_a_process_uses_cpu_time(tmp_path: Path, gateway: Gateway):
    task = Task(tmp_path, gateway, "wait")
    os.kill(task.pid, signal.SIGSTOP)
    task.control.receive()  # which may be of the time before
    assert list(task.control.receive() or ()) == ["cpu_time_s"]
    assert task.control.receive() == task.control.receive()
    task.control.send({"do": "kill"})
    check_end(task, -signal.SIGKILL)


def test_a_second_copy_of_a_process_is_turned_away(tmp_path: Path, gateway: Gateway):
    task = Task(tmp_path, gateway, "wait")
    again = end(start(tmp_path, gateway, "wait"))
    assert again.code == 1
    assert "PeerRefused: process 0 was started already, and is not started a second time" in again.err
    task.control.send({"do": "kill"})
    check_end(task, -signal.SIGKILL)
