"""A process in a task of Spark, as its supervisor knows it: over streams whose other ends the test holds."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from unittest.mock import sentinel

import pytest

from framework.launch.rpc import RpcLink
from operators.spark.launch import launcher
from operators.spark.launch.gateway import StreamKind
from operators.spark.launch.launcher import _SparkProcess

Streams = dict[StreamKind, socket.socket]


@pytest.fixture
def connected() -> Iterator[tuple[_SparkProcess, Streams, Streams]]:
    """The process, the ends of its streams here, and those at the task."""
    pairs = {kind: socket.socketpair() for kind in StreamKind}
    ours = {kind: pair[0] for kind, pair in pairs.items()}
    theirs = {kind: pair[1] for kind, pair in pairs.items()}
    process = _SparkProcess(1, 0, sentinel.context, "group")
    process.connect(ours, (None, None), lambda: None)
    status = socket.socket(fileno=process.status_fd)
    yield process, ours, theirs
    for each in (*ours.values(), *theirs.values(), status):
        each.close()


def test_what_its_task_says_of_its_cpu_time_holds_for_a_moment(
    connected: tuple[_SparkProcess, Streams, Streams], monkeypatch: pytest.MonkeyPatch
):
    process, _, theirs = connected
    assert process.cpu_time_s() is None
    control = RpcLink(theirs[StreamKind.CONTROL])
    control.send({"cpu_time_s": 1.5})
    control.send({"pid": 7, "at": "here", "host": "127.0.0.1", "port": 1})
    process.registered.wait()
    assert process.cpu_time_s() == 1.5
    monkeypatch.setattr(launcher, "CPU_TIME_S_MAX", -1.0)
    assert process.cpu_time_s() is None, "its machine may be out of reach"
    control.close()


def test_a_process_that_has_ended_keeps_no_descriptor(connected: tuple[_SparkProcess, Streams, Streams]):
    process, ours, theirs = connected
    control = RpcLink(theirs[StreamKind.CONTROL])
    control.send({"exited": 0})
    control.close()
    assert process.wait() == 0
    for kind in (StreamKind.STDOUT, StreamKind.STDERR):
        theirs[kind].close()
    for pump in process._pumps:
        pump.close(10)
    assert [ours[kind].fileno() for kind in (StreamKind.CONTROL, StreamKind.STDOUT, StreamKind.STDERR)] == [-1] * 3


def test_who_ends_unseen_was_lost_with_its_executor(connected: tuple[_SparkProcess, Streams, Streams]):
    process, _, theirs = connected
    theirs[StreamKind.CONTROL].close()
    assert (process.wait(), process.ending()) == (-signal.SIGKILL, "was lost with its executor on ")
