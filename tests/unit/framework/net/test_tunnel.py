"""A plain socket in front of an encrypted connection."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from framework.launch.rpc import RpcLink
from framework.net.link_socket import secured
from framework.net.tunnel import Tunnel
from framework.wire.credentials import Credentials, Encryption

OURS = Credentials(b"s" * 32, encryption=Encryption.ALWAYS)
LIMIT_S = 20.0


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The plain ends of an encrypted connection: two tunnels, one at each end of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    tunnels = []
    for connection, server_side in ((near, False), (far, True)):
        link = secured(connection, OURS, server_side=server_side)
        assert not isinstance(link, socket.socket)
        link.setblocking(True)
        tunnels.append((Tunnel, link))
    greeting = threading.Thread(target=tunnels[0][1].do_handshake)
    greeting.start()
    tunnels[1][1].do_handshake()
    greeting.join()
    one, other = (make(link) for make, link in tunnels)
    one.start()
    other.start()
    for end in (one.end, other.end):
        end.settimeout(LIMIT_S)
    yield one.end, other.end
    for end in (one.end, other.end):
        end.close()
    assert one.drain(LIMIT_S)
    assert other.drain(LIMIT_S)


def test_both_directions_stream_at_once(ends: tuple[socket.socket, socket.socket]) -> None:
    octets = os.urandom(8_000_000)
    heard: dict[socket.socket, bytearray] = {end: bytearray() for end in ends}

    def listen(end: socket.socket) -> None:
        while data := end.recv(1 << 16):
            heard[end] += data

    def speak(end: socket.socket) -> None:
        end.sendall(octets)
        end.shutdown(socket.SHUT_WR)

    threads = [threading.Thread(target=work, args=(end,)) for work in (listen, speak) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert [bytes(heard[end]) == octets for end in ends] == [True, True]


def test_requests_and_answers_of_two_threads_cross(ends: tuple[socket.socket, socket.socket]) -> None:
    """One thread receives, any may send: more than TLS takes of its own."""
    links = [RpcLink(end) for end in ends]
    count, text = 300, "x" * 5_000
    heard: list[list[int]] = [[], []]

    def listen(index: int) -> None:
        while len(heard[index]) < count and (message := links[index].receive()) is not None:
            heard[index].append(message["number"])

    def speak(index: int) -> None:
        for number in range(count):
            links[index].send({"number": number, "text": text})

    threads = [threading.Thread(target=work, args=(index,)) for work in (listen, speak) for index in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert heard == [list(range(count))] * 2


def test_one_side_may_end_while_the_other_still_speaks(ends: tuple[socket.socket, socket.socket]) -> None:
    one, other = ends
    one.sendall(b"my last word")
    one.shutdown(socket.SHUT_WR)
    assert heard_of(other) == b"my last word"
    other.sendall(b"and mine")
    other.close()
    assert heard_of(one) == b"and mine"


def heard_of(end: socket.socket) -> bytes:
    heard = b""
    while data := end.recv(4096):
        heard += data
    return heard


def test_whoever_is_gone_is_missed_at_the_other_end(ends: tuple[socket.socket, socket.socket]) -> None:
    one, other = ends
    other.close()
    assert one.recv(1) == b""
    with pytest.raises(OSError, match=r"Broken pipe|Connection reset"):
        send_for_ever(one)


def send_for_ever(end: socket.socket) -> None:
    while True:
        end.sendall(b"x" * 65_536)
