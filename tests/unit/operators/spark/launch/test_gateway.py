"""The gateway admits each stream of an attempt once; its pump tells a lost stream from an output that nobody reads."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from framework.wire.credentials import Credentials
from framework.wire.purpose import ExecutorStream
from operators.spark.launch.gateway import Gateway, OutputPump, StreamKind

STREAM = ExecutorStream(attempt=0, process=1, kind=StreamKind.CONTROL)
LIMIT_S = 10.0


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    gateway = Gateway("127.0.0.1", Credentials(b"s" * 32))
    yield gateway
    gateway.close()


def test_a_stream_counts_once_its_process_was_told(gateway: Gateway):
    assert gateway._admit(STREAM) == "process 1 is no longer waited for"
    gateway.expect(process=1, attempt=0)
    assert gateway._admit(STREAM) is None
    assert gateway._admit(STREAM) is None, "nobody could tell the process, which tries again"
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        gateway._deliver(STREAM, ours)
        assert gateway._admit(STREAM) == "process 1 was started already, and is not started a second time"
        gateway.forget(process=1, attempt=0)


class Lost(socket.socket):
    """A stream whose other end no longer answers: see tcp(7), ETIMEDOUT."""

    def recv(self, size: int, flags: int = 0) -> bytes:
        data = super().recv(size, flags)
        if not data:
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        return data


def test_a_stream_that_is_lost_does_not_say_that_nobody_reads_the_output():
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    unread = threading.Event()
    pump = OutputPump(Lost(fileno=ours.detach()), writing, 1, unread.set)
    theirs.sendall(b"its last line\n")
    theirs.close()
    with os.fdopen(reading, "rb") as output:
        assert output.read() == b"its last line\n"
    pump.close(LIMIT_S)
    assert not unread.is_set()


def test_an_output_that_nobody_reads_is_told():
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    os.close(reading)
    unread = threading.Event()
    pump = OutputPump(ours, writing, 1, unread.set)
    theirs.sendall(b"a line\n")
    assert unread.wait(LIMIT_S)
    pump.close(LIMIT_S)
    theirs.close()
