"""A machine that is gone is told from one that does not read, also where nothing watches the connection."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from framework.net.keep_alive import TCP_RTO_MAX_MS
from tests.hosts import Made, hosts
from tests.processes import ROOT

RETRIES = 8
"""Fewer than usual, so that the test is short: 13 s instead of 27, where without a bound it would take 102 s."""

LISTENING = """
import socket
with socket.create_server(("10.77.0.2", 7700)) as listener:
    print("listening", flush=True)
    connection, _ = listener.accept()
    while connection.recv(1024):
        pass
"""

CONNECTED = """
import errno, select, socket, sys
from contextlib import suppress
from framework.net.keep_alive import keep_alive

listener = socket.create_server(("127.0.0.1", 0))
unread = socket.create_connection(listener.getsockname())
remote = socket.create_connection(("10.77.0.2", 7700))
for connection in (unread, remote):
    keep_alive(connection)
unread.setblocking(False)
with suppress(BlockingIOError):
    while True:
        unread.send(bytes(65536))
remote.sendall(b"before")
print("connected", flush=True)
sys.stdin.readline()
remote.sendall(b"after")
poll = select.poll()
poll.register(remote, select.POLLIN)
poll.register(unread, select.POLLIN)
ended = [(fd == remote.fileno(), events & select.POLLERR != 0) for fd, events in poll.poll(60_000)]
print(ended, errno.errorcode.get(remote.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)), flush=True)
"""


def limits_retransmission() -> bool:
    with socket.socket() as probe:
        try:
            return probe.getsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS) > 0
        except OSError:
            return False


@pytest.mark.skipif(not limits_retransmission(), reason="this system is older than Linux 6.15")
def test_a_machine_that_is_gone_is_noticed_with_data_in_flight_and_one_that_does_not_read_is_none(made: Made):
    with ExitStack() as stack:
        net = made(hosts(2))
        subprocess.run([*net.on(0), "sysctl", "-q", "-w", f"net.ipv4.tcp_retries2={RETRIES}"], check=True)

        def start(host: int, program: str) -> subprocess.Popen[str]:
            process = stack.enter_context(
                subprocess.Popen(
                    [*net.on(host), sys.executable, "-W", "ignore", "-c", program],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(process.kill)
            return process

        def say(process: subprocess.Popen[str]) -> str:
            assert process.stdout is not None
            return process.stdout.readline().strip()

        assert say(start(1, LISTENING)) == "listening"
        connected = start(0, CONNECTED)
        assert say(connected) == "connected"
        net.cut(1)
        assert connected.stdin is not None
        print("cut", file=connected.stdin, flush=True)
        assert say(connected) == "[(True, True)] ETIMEDOUT"
