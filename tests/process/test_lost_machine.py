"""A machine that is gone is told from one that does not read, whatever a connection to it is about to do."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack

from framework.net.keep_alive import TCP_RTO_MAX_MS
from tests.hosts import Made, hosts
from tests.processes import ROOT

RETRIES = 8
"""Fewer than usual, so that the test is short: 13 s instead of 27, where without a bound it would take 102 s."""

LISTENING = """
import socket
with socket.create_server(("10.77.0.2", 7700)) as listener:
    print("listening", flush=True)
    read, *rest = (listener.accept()[0] for _ in range(4))
    while read.recv(1024):
        pass
"""

CONNECTED = """
import errno, select, socket, sys, time
from contextlib import suppress
from framework.net.keep_alive import keep_alive
from framework.net.link_watch import LinkWatch

def connected(*address):
    connection = socket.create_connection(address)
    keep_alive(connection)
    return connection

def fill(connection):
    connection.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            connection.send(bytes(65536))

listener = socket.create_server(("127.0.0.1", 0))
remote = connected("10.77.0.2", 7700)
links = {name: connected("10.77.0.2", 7700) for name in ("sending", "idle", "full")}
links["unread"], unread = (connected(*listener.getsockname()) for _ in range(2))
watch = LinkWatch()
for link in links.values():
    watch.add(link)
for full in (links["full"], links["unread"], unread):
    fill(full)
remote.sendall(b"before")
print("connected", flush=True)
sys.stdin.readline()
for sending in (remote, links["sending"]):
    sending.sendall(b"after")
given_up, until_s = [], time.monotonic() + 60
while len(given_up) < 3 and time.monotonic() < until_s:
    given_up = [name for name, link in links.items() if watch.gave_up(link)]
    time.sleep(0.01)
print(given_up, flush=True)
poll = select.poll()
poll.register(remote, select.POLLIN)
poll.register(unread, select.POLLIN)
ended = [(fd == remote.fileno(), events & select.POLLERR != 0) for fd, events in poll.poll(60_000)]
print(ended, errno.errorcode.get(remote.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)), flush=True)
"""


def limits_retransmission() -> bool:
    """Whether this system is Linux 6.15 or newer."""
    with socket.socket() as probe:
        try:
            return probe.getsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS) > 0
        except OSError:
            return False


def test_a_machine_that_is_gone_is_noticed_and_one_that_does_not_read_is_none(made: Made):
    """Links with data in flight, without any, and with a closed window are given up; others are by the system."""
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
        assert say(connected) == "['sending', 'idle', 'full']"
        if limits_retransmission():
            assert say(connected) == "[(True, True)] ETIMEDOUT"
