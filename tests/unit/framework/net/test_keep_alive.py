"""Links, streams of Spark's tasks and clients of a broker all notice a machine that is gone."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from framework.net.keep_alive import TCP_RTO_MAX_MS
from framework.net.tcp_link import prepare
from operators.broker.connection import Connection
from operators.spark.launch.gateway import plain_stream


@pytest.mark.skipif(sys.platform != "linux", reason="these are options of Linux")
@pytest.mark.parametrize(
    "takes_over", [prepare, plain_stream, lambda connection: Connection(connection, silence_s=None)]
)
def test_what_takes_a_connection_over_bounds_how_long_it_outlives_its_machine(
    takes_over: Callable[[socket.socket], object],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        takes_over(ours)
        options = [socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT]
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert [ours.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [3, 1, 6, 0]
        with suppress(OSError):  # before Linux 6.15
            assert ours.getsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS) == 2_000
