"""The gateway admits each stream of an attempt once."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from framework.wire.purpose import ExecutorStream
from operators.spark.launch.gateway import Gateway, StreamKind

STREAM = ExecutorStream(attempt=0, process=1, kind=StreamKind.CONTROL)


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    gateway = Gateway("127.0.0.1", b"s" * 32)
    yield gateway
    gateway.close()


def test_a_stream_counts_once_its_process_was_told(gateway: Gateway):
    assert gateway._admit(STREAM) == "process 1 is not waited for any more"
    gateway.expect(process=1, attempt=0)
    assert gateway._admit(STREAM) is None
    assert gateway._admit(STREAM) is None, "nobody could tell the process, which tries again"
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        gateway._deliver(STREAM, ours)
        assert gateway._admit(STREAM) == "process 1 was started already, and is not started a second time"
        gateway.forget(process=1, attempt=0)
