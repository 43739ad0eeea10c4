"""A machine that is gone is told from one that does not read: a namespace whose packets no longer arrive."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from framework.net.keep_alive import TCP_RTO_MAX_MS
from tests.processes import ROOT

HERE, THERE = f"hailer-{os.getpid()}-a", f"hailer-{os.getpid()}-b"
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


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def link() -> Iterator[None]:
    """Two namespaces, and a link between them."""
    with ExitStack() as stack:
        for namespace in (HERE, THERE):
            try:
                ip("netns", "add", namespace)
            except (OSError, subprocess.CalledProcessError):
                pytest.skip("this process may not make network namespaces")
            stack.callback(ip, "netns", "del", namespace)
        ip("-n", HERE, "link", "add", "name", "wire", "type", "veth", "peer", "name", "wire", "netns", THERE)
        for namespace, number in ((HERE, 1), (THERE, 2)):
            ip("-n", namespace, "link", "set", "lo", "up")
            ip("-n", namespace, "link", "set", "wire", "address", f"02:00:00:00:00:0{number}", "up")
            ip("-n", namespace, "address", "add", f"10.77.0.{number}/24", "dev", "wire")
        ip("-n", HERE, "neighbour", "add", "10.77.0.2", "lladdr", "02:00:00:00:00:02", "dev", "wire")
        ip("netns", "exec", HERE, "sysctl", "-q", "-w", f"net.ipv4.tcp_retries2={RETRIES}")
        yield


def cut() -> None:
    """What is sent to the other end goes to an address that nobody has any more: no end is told."""
    ip("-n", THERE, "link", "set", "wire", "address", "02:00:00:00:00:03")


def limits_retransmission() -> bool:
    with socket.socket() as probe:
        try:
            return probe.getsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS) > 0
        except OSError:
            return False


@pytest.mark.skipif(not limits_retransmission(), reason="this system is older than Linux 6.15")
def test_a_machine_that_is_gone_is_noticed_with_data_in_flight_and_one_that_does_not_read_is_none(link: None):
    with ExitStack() as stack:

        def start(namespace: str, program: str) -> subprocess.Popen[str]:
            process = stack.enter_context(
                subprocess.Popen(
                    ["ip", "netns", "exec", namespace, sys.executable, "-W", "ignore", "-c", program],
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

        assert say(start(THERE, LISTENING)) == "listening"
        connected = start(HERE, CONNECTED)
        assert say(connected) == "connected"
        cut()
        assert connected.stdin is not None
        print("cut", file=connected.stdin, flush=True)
        assert say(connected) == "[(True, True)] ETIMEDOUT"
