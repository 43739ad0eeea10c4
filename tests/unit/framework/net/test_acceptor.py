"""The acceptor among strangers: each is cut off with a line, and the next honest client still gets in."""

from __future__ import annotations

import errno
import logging
import os
import queue
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from framework.membership.members import WorkerId
from framework.net.acceptor import STRANGERS_MAX, Acceptor
from framework.net.connect import Patience, connect_link
from framework.net.link_socket import LinkSocket
from framework.wire.credentials import Credentials
from framework.wire.purpose import WorkerLink

OURS = Credentials(b"s" * 32)
LINK = WorkerLink(2, 1, WorkerId(1), WorkerId(0))
LIMIT_S = 20.0


class Door:
    """An acceptor on a port of its own, and what it let in."""

    def __init__(
        self, timeout_s: float = 5.0, listen: Callable[[socket.socket], socket.socket] = lambda listener: listener
    ) -> None:
        self.let_in: queue.Queue[tuple[WorkerLink, LinkSocket]] = queue.Queue()
        self.trouble: list[Exception] = []
        """What serving the next clients raises."""
        listener = listen(socket.create_server(("127.0.0.1", 0), backlog=256))
        self.address: tuple[str, int] = listener.getsockname()
        self.acceptor = Acceptor(
            listener,
            OURS,
            serves=(WorkerLink,),
            admit=lambda link: None,
            deliver=self.deliver,
            timeout_s=timeout_s,
        )
        self.acceptor.start()

    def deliver(self, link: WorkerLink, connection: LinkSocket) -> None:
        if self.trouble:
            raise self.trouble.pop()
        self.let_in.put((link, connection))

    def connect(self) -> socket.socket:
        connection = socket.create_connection(self.address)
        connection.settimeout(LIMIT_S)
        return connection

    def admits(self) -> bool:
        connection, _ = connect_link(self.address, LINK, OURS, Patience(time.monotonic() + LIMIT_S, lambda: False))
        link, accepted = self.let_in.get(timeout=LIMIT_S)
        connection.close()
        accepted.close()
        return link == LINK


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door()
    yield door
    door.acceptor.close()


def ended(connection: LinkSocket) -> bool:
    """Whether the other side hangs up, within the time limit."""
    try:
        while connection.recv(1024):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "does not speak this protocol"),
        (os.urandom(1 << 16), "does not speak this protocol"),
        (b"HAILER\x00\x05" + b"n" * 32 + b"x" * 500, "spoke out of turn"),
        (b"HAILER\x00\x07", "speaks version 7"),
    ],
)
def test_a_stranger_is_cut_off_with_one_line(
    door: Door, said: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "hailer.net"), door.connect() as stranger:
        stranger.sendall(said)
        assert ended(stranger)
        assert door.admits()
    (record,) = caplog.records
    assert reason in record.getMessage()
    assert "127.0.0.1:" in record.getMessage()
    assert any(reason in rejection for rejection in door.acceptor.rejections)


def test_one_that_guesses_the_proof_is_cut_off(door: Door) -> None:
    with door.connect() as stranger:
        stranger.sendall(b"HAILER\x00\x05" + b"n" * 32)
        assert len(stranger.recv(1024)) > 0
        stranger.sendall(b"p" * 32 + b"\0" * 4)
        assert ended(stranger)
    assert door.admits()


def test_one_that_is_slow_is_cut_off_at_its_deadline() -> None:
    door = Door(timeout_s=0.05)
    with door.connect() as silent, door.connect() as halfway:
        halfway.sendall(b"HAILER")
        assert ended(silent)
        assert ended(halfway)
    assert door.admits()
    assert sum("more than 0.05 s" in rejection for rejection in door.acceptor.rejections) == 2
    door.acceptor.close()


def test_of_too_many_strangers_the_oldest_goes(door: Door) -> None:
    strangers = [door.connect() for _ in range(STRANGERS_MAX + 3)]
    assert all(ended(stranger) for stranger in strangers[:3])
    assert door.admits()
    for stranger in strangers[4:]:
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.recv(1)
    for stranger in strangers:
        stranger.close()


def test_who_floods_the_port_keeps_nobody_else_out(door: Door) -> None:
    """Linux has all of 127.0.0.0/8 on its loopback interface."""
    with door.connect() as early:
        flood = [socket.create_connection(door.address, LIMIT_S, ("127.0.0.2", 0)) for _ in range(STRANGERS_MAX + 3)]
        assert all(ended(stranger) for stranger in flood[:4])
        early.setblocking(False)
        with pytest.raises(BlockingIOError):
            early.recv(1)
    assert door.admits()
    for stranger in flood:
        stranger.close()


def test_a_flood_does_not_fill_the_log(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "hailer.net"):
        begin = time.monotonic()
        for _ in range(300):
            with door.connect() as stranger:
                stranger.sendall(b"?")
                assert ended(stranger)
        elapsed_s = time.monotonic() - begin
    assert len(caplog.records) <= 11 + elapsed_s
    assert door.admits()


def test_a_client_that_cannot_be_served_is_cut_off_and_the_next_one_gets_in(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    door.trouble = [RuntimeError("can't start new thread")]
    with caplog.at_level(logging.WARNING, "hailer.net"):
        connection, _ = connect_link(door.address, LINK, OURS, Patience(time.monotonic() + LIMIT_S, lambda: False))
        connection.settimeout(LIMIT_S)
        assert ended(connection)
        connection.close()
        assert door.admits()
    (record,) = caplog.records
    assert record.getMessage().endswith("is cut off: it cannot be served: can't start new thread")


class Exhausted(socket.socket):
    """A listener whose process has no descriptor left, once."""

    left = 0

    def accept(self) -> Any:
        if not self.left:
            self.left = 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


def test_a_process_without_descriptors_lets_the_next_client_in_once_it_has_some(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "hailer.net"):
        door = Door(listen=lambda listener: Exhausted(fileno=listener.detach()))
        assert door.admits()
    assert [record.getMessage() for record in caplog.records] == ["connections have to wait: Too many open files"]
    door.acceptor.close()


def test_what_the_system_does_not_watch_is_cut_off_and_the_next_one_gets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[object] = []

    class Full(selectors.DefaultSelector):
        def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
            if data is fileobj and not refused:  # a stranger
                refused.append(fileobj)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().register(fileobj, events, data)

    monkeypatch.setattr(selectors, "DefaultSelector", Full)
    door = Door()
    with door.connect() as first:
        assert ended(first)
    assert door.admits()
    assert [rejection.partition(": ")[2] for rejection in door.acceptor.rejections] == [
        "it cannot be watched: No space left on device"
    ]
    door.acceptor.close()


def test_a_close_is_complete_and_can_be_repeated() -> None:
    before = len(os.listdir("/proc/self/fd"))
    door = Door()
    stranger = door.connect()
    assert door.admits()
    door.acceptor.close()
    door.acceptor.close()
    assert ended(stranger)
    stranger.close()
    assert not door.acceptor._thread.is_alive()
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ConnectionRefusedError):
        door.connect()
