"""Who no longer answers is told from who answers late, reads nothing, or was not asked."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from framework.net import keep_alive as keep_alive_module
from framework.net import link_watch
from framework.net.keep_alive import keep_alive
from framework.net.link_watch import LinkWatch, TcpInfo

SILENCE_S = 0.25
LIMIT_S = 60.0
IDLE = TcpInfo(retransmissions=0, probes=0, unacknowledged=0, data_received_ms=2_000, acknowledged_ms=2_000)


@pytest.mark.parametrize(
    ("info", "gone"),
    [
        (IDLE, False),
        (TcpInfo(0, 0, 1, 9_000, 9_000), False),
        (TcpInfo(1, 0, 1, 9_000, 9_000), False),
        (TcpInfo(3, 0, 1, 8_000, 8_000), True),
        (TcpInfo(3, 0, 1, 7_999, 9_000), False),
        (TcpInfo(3, 0, 1, 9_000, 7_999), False),
        (TcpInfo(0, 3, 0, 9_000, 9_000), True),
        (TcpInfo(0, 2, 0, 9_000, 9_000), False),
        (TcpInfo(0, 0, 0, 90_000, 90_000), False),
    ],
    ids=[
        "idle",
        "after a long rest, something has just been sent",
        "and one packet was lost",
        "data is sent again and again, and nothing comes back",
        "data still comes",
        "something is acknowledged",
        "no probe is answered",
        "the last two are not",
        "a closed window whose last probe was answered long ago",
    ],
)
def test_who_answers_nothing_for_long_enough_although_asked_is_gone(info: TcpInfo, gone: bool) -> None:
    assert info.is_gone(8.0) == gone


def test_a_machine_that_is_gone_is_given_up_within_ten_seconds_also_if_its_link_is_idle() -> None:
    """As docs/howto/rescale.md says; the rest is for the report and the end of the processes."""
    probed_s = keep_alive_module.IDLE_S + link_watch.ATTEMPTS_MIN * keep_alive_module.INTERVAL_S
    assert max(link_watch.SILENCE_S, probed_s) + link_watch.LOOK_S <= 8.0


linux = pytest.mark.skipif(sys.platform != "linux", reason="the watch is for Linux")


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    keep_alive(near)
    with near, far:
        yield near, far


@contextmanager
def watched(*connections: socket.socket) -> Iterator[LinkWatch]:
    watch = LinkWatch(silence_s=SILENCE_S, look_s=SILENCE_S / 25)
    for connection in connections:
        watch.add(connection)
    try:
        yield watch
    finally:
        for connection in connections:
            watch.remove(connection)
        watch.close()


def fill(connection: socket.socket) -> int:
    """Send until the window is closed, and what is on this side is full; how much."""
    sent = 0
    connection.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            sent += connection.send(bytes(65_536))
    return sent


def wait_for_silence(connection: socket.socket) -> None:
    """Wait until the other end has been silent for longer than the bound, a second time: between two probes."""
    deadline_s = time.monotonic() + LIMIT_S
    for silent in (True, False, True):
        while (TcpInfo.of(connection).silence_s > SILENCE_S) is not silent:
            assert time.monotonic() < deadline_s
            time.sleep(0.005)


@linux
def test_who_does_not_read_is_not_given_up_and_gets_all_in_the_end() -> None:
    with connected() as (near, far), watched(near) as watch:
        sent = fill(near)
        wait_for_silence(near)
        assert not watch.gave_up(near)
        while sent:
            sent -= len(far.recv(1 << 20))


@linux
def test_a_process_that_was_stopped_gives_up_nobody() -> None:
    """Its kernel has been answered meanwhile."""
    with connected() as (near, _):
        fill(near)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            with watched(near) as watch:
                os.read(reading, 1)
                watch.look()
                os._exit(watch.gave_up(near))
        os.kill(child, signal.SIGSTOP)
        wait_for_silence(near)
        os.write(writing, b"!")
        os.kill(child, signal.SIGCONT)
        assert os.waitpid(child, 0)[1] == 0
        os.close(reading)
        os.close(writing)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "hailer-link-watch"]


@linux
def test_the_thread_ends_with_the_last_link_and_begins_again_with_the_next() -> None:
    watch = LinkWatch()
    for _ in range(2):
        with connected() as (one, other):
            watch.add(one)
            watch.add(other)
            [thread] = threads()
            watch.remove(one)
            watch.remove(other)
            thread.join(LIMIT_S)
            assert not threads()


@linux
def test_who_is_closed_looks_no_more() -> None:
    with connected() as (near, _):
        with watched(near) as watch:
            [thread] = threads()
            watch.close()
            assert not thread.is_alive()
            watch.remove(near)
            watch.add(near)
        assert not threads()
