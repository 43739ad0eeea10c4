"""Encrypted connections: they behave as sockets do, and nobody gets in who lacks the secret."""

from __future__ import annotations

import os
import queue
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from framework.errors import ConfigError, ProtocolError, SecretMismatch
from framework.membership.members import WorkerId
from framework.net import certificate
from framework.net.acceptor import Acceptor
from framework.net.connect import Patience, connect_link
from framework.net.endpoint import Endpoint
from framework.net.link_socket import LinkSocket, is_local, secured
from framework.net.tls import HANDSHAKE_BYTES_MAX, TlsConnection
from framework.wire.credentials import Credentials, Encryption
from framework.wire.handshake import ENCRYPT_ALIKE
from framework.wire.messages import Data, Goodbye, Lost, Message
from framework.wire.purpose import WorkerLink
from tests.peers import receive, ssh_server

OURS = Credentials(b"s" * 32, "5e1f", encryption=Encryption.ALWAYS)
PLAIN = replace(OURS, encryption=Encryption.NEVER)
LINK = WorkerLink(2, 1, WorkerId(1), WorkerId(0))
ME, PEER = WorkerId(0), WorkerId(1)
LIMIT_S = 20.0


class Door:
    """An acceptor on a port of its own, and what it let in."""

    def __init__(self, credentials: Credentials) -> None:
        self.let_in: queue.Queue[LinkSocket] = queue.Queue()
        self.opened: list[LinkSocket] = []
        listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = listener.getsockname()
        self.acceptor = Acceptor(
            listener, credentials, serves=(WorkerLink,), admit=lambda link: None, deliver=self.deliver
        )
        self.acceptor.start()

    def deliver(self, link: WorkerLink, connection: LinkSocket) -> None:
        self.let_in.put(connection)

    def connect(self, credentials: Credentials) -> tuple[LinkSocket, LinkSocket]:
        """A connection, seen from both ends."""
        patience = Patience(time.monotonic() + LIMIT_S, lambda: False)
        near, _ = connect_link(self.address, LINK, credentials, patience)
        self.opened.append(near)
        far = self.let_in.get(timeout=LIMIT_S)
        self.opened.append(far)
        return near, far

    def says(self, text: str) -> bool:
        """Whether somebody is cut off for this reason."""
        deadline_s = time.monotonic() + LIMIT_S
        while not any(text in rejection for rejection in list(self.acceptor.rejections)):
            assert time.monotonic() < deadline_s, list(self.acceptor.rejections)
            time.sleep(0.005)
        return True


@pytest.fixture
def make_door() -> Iterator[Callable[[Credentials], Door]]:
    doors: list[Door] = []

    def make(credentials: Credentials) -> Door:
        doors.append(Door(credentials))
        return doors[-1]

    yield make
    for door in doors:
        door.acceptor.close()
        for connection in door.opened:
            connection.close()


@pytest.fixture
def pair(make_door: Callable[[Credentials], Door]) -> tuple[TlsConnection, TlsConnection]:
    near, far = make_door(OURS).connect(OURS)
    assert isinstance(near, TlsConnection)
    assert isinstance(far, TlsConnection)
    return near, far


def test_what_is_said_is_read_by_the_other_end_only(pair: tuple[TlsConnection, TlsConnection]) -> None:
    near, far = pair
    near.sendall(b"a record of the job")
    seen = wait(lambda: far.socket.recv(4096, socket.MSG_PEEK))
    assert seen
    assert b"record" not in seen
    assert wait(lambda: far.recv(100)) == b"a record of the job"


def wait(receive: Callable[[], bytes]) -> bytes:
    deadline_s = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline_s:
        try:
            return receive()
        except BlockingIOError:
            time.sleep(0.001)
    raise AssertionError("nothing came")


def test_as_a_socket_it_tells_what_there_is_and_that_there_is_nothing(
    pair: tuple[TlsConnection, TlsConnection],
) -> None:
    near, far = pair
    with pytest.raises(BlockingIOError):
        far.recv(1)
    near.sendall(b"x" * 100_000)
    first = wait(lambda: far.recv(10))
    assert first == b"x" * 10
    received = bytearray(first)
    room = memoryview(bytearray(50_000))
    while len(received) < 100_000:
        received += wait(lambda: bytes(room[: far.recv_into(room)]))
    assert received == b"x" * 100_000
    assert far.pending == 0
    near.close()
    assert wait(lambda: far.recv(10)) == b""


def test_pieces_come_in_order_whatever_the_kernel_takes(pair: tuple[TlsConnection, TlsConnection]) -> None:
    near, far = pair
    octets = os.urandom(5_000_000)
    pieces = [memoryview(octets)[start : start + 70_001] for start in range(0, len(octets), 70_001)]
    received, room, blocked = bytearray(), memoryview(bytearray(300_000)), 0
    while pieces or len(received) < len(octets):
        try:
            while pieces:
                sent = near.sendmsg(pieces)
                while sent:
                    part = min(sent, len(pieces[0]))
                    pieces[0] = pieces[0][part:]
                    sent -= part
                    if not pieces[0]:
                        pieces.pop(0)
        except BlockingIOError:
            blocked += 1
        try:
            received += room[: far.recv_into(room)]
        except BlockingIOError:
            pass
    assert received == octets
    assert blocked > 0


def test_a_blocking_one_waits_as_a_socket_does(pair: tuple[TlsConnection, TlsConnection]) -> None:
    near, far = pair
    for one in pair:
        one.settimeout(LIMIT_S)
    octets = os.urandom(3_000_000)
    sender = threading.Thread(target=near.sendall, args=(octets,))
    sender.start()
    received = bytearray()
    while len(received) < len(octets):
        received += far.recv(1 << 18)
    sender.join()
    assert received == octets
    far.settimeout(0.01)
    with pytest.raises(TimeoutError):
        far.recv(1)


def test_a_changed_byte_ends_the_link_and_says_why(pair: tuple[TlsConnection, TlsConnection]) -> None:
    near, far = pair
    endpoint = Endpoint(ME)
    endpoint.adopt(PEER, near)
    far.sendmsg([b""])
    far._encrypt([b"frames"])
    changed = bytearray(far._unsent)
    changed[-1] ^= 1
    far.socket.sendall(changed)
    (lost,) = receive(endpoint, 1)
    assert isinstance(lost, Lost)
    assert "TLS failed: decryption failed or bad record mac" in lost.detail
    endpoint.close()


def test_links_carry_everything_both_ways_and_offer_no_memory(pair: tuple[TlsConnection, TlsConnection]) -> None:
    near, far = pair
    one, other = Endpoint(ME), Endpoint(PEER)
    one.adopt(PEER, near)
    other.adopt(ME, far)
    sent: list[Message] = [
        Data(0, number, [b"x" * size]) for number, size in enumerate((1, 20_000, 300_000, 2_000_000))
    ]
    sent.append(Goodbye())
    for endpoint, peer in ((one, PEER), (other, ME)):
        assert endpoint.reserve(peer, 1_000_000) is None
        for message in sent:
            endpoint.send(peer, message)
    assert exchange(one, other, len(sent)) == (sent, sent)
    one.close()
    other.close()


def exchange(one: Endpoint, other: Endpoint, count: int) -> tuple[list[Message], list[Message]]:
    deadline_s = time.monotonic() + LIMIT_S
    heard: tuple[list[Message], list[Message]] = ([], [])
    while min(map(len, heard)) < count and time.monotonic() < deadline_s:
        for endpoint, messages in zip((one, other), heard, strict=True):
            endpoint.flush()
            messages.extend(message for _, message in endpoint.receive())
    return heard


def test_a_worker_does_not_sleep_on_what_is_decrypted_already(
    pair: tuple[TlsConnection, TlsConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading is bounded per step; what is decrypted beyond the bound is in no selector."""
    monkeypatch.setattr("framework.net.tcp_link.READ_BYTES_MAX", 1_000)
    monkeypatch.setattr("framework.net.tcp_link.CHUNK_BYTES", 500)
    near, far = pair
    one, other = Endpoint(ME), Endpoint(PEER)
    one.adopt(PEER, near)
    other.adopt(ME, far)
    for number in range(20):  # the first is read into memory of its own
        other.send(ME, Data(0, number, [b"x" * (100 if number else 100_000)]))
    other.flush()
    assert [message.time for message in receive(one, 20) if isinstance(message, Data)] == list(range(20))
    one.close()
    other.close()


def test_what_came_with_the_welcome_is_not_slept_on(make_door: Callable[[Credentials], Door]) -> None:
    near, far = make_door(OURS).connect(OURS)
    assert isinstance(far, TlsConnection)
    near.sendall(b"\0\0\0\2\4\x90" * 10)  # goodbyes, of which the one end takes one byte
    assert wait(lambda: far.recv(1)) == b"\0"
    assert far.pending == 59
    endpoint = Endpoint(ME)
    endpoint.adopt(PEER, far, b"\0")
    begin_s = time.monotonic()
    assert receive(endpoint, 10) == [Goodbye()] * 10
    assert time.monotonic() - begin_s < LIMIT_S / 2
    endpoint.close()


def test_another_secret_is_found_out_by_both(make_door: Callable[[Credentials], Door]) -> None:
    door = make_door(OURS)
    with pytest.raises(SecretMismatch, match="does not know the cluster's secret that this process has"):
        door.connect(replace(OURS, secret=b"t" * 32))
    assert door.says("it does not know the cluster's secret")
    assert all(isinstance(end, TlsConnection) for end in door.connect(OURS))


def test_a_stranger_without_a_certificate_hears_nothing_of_the_handshake(
    make_door: Callable[[Credentials], Door],
) -> None:
    door = make_door(OURS)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(door.address) as connection,
        context.wrap_socket(connection) as stranger,
    ):
        assert hears_nothing(stranger)
    assert door.says("peer did not return a certificate")


def hears_nothing(stranger: ssl.SSLSocket) -> bool:
    """Whether one that believes to be connected is cut off, without an answer to how Hailer opens."""
    try:
        stranger.sendall(b"HAILER\x00\x05" + b"n" * 32)
        return stranger.recv(1) == b""
    except (ssl.SSLError, ConnectionError):
        return True


def test_an_older_tls_is_refused(make_door: Callable[[Credentials], Door]) -> None:
    door = make_door(OURS)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(door.address) as connection, pytest.raises(ssl.SSLError):
        context.wrap_socket(connection)
    assert door.says("TLS failed")


def test_an_expired_certificate_is_refused_by_both(
    make_door: Callable[[Credentials], Door], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the right key and name, and is not ours."""
    door = make_door(OURS)
    key, expired = certificate.make_certificate(OURS.tls_key, ends=datetime(2001, 1, 1, tzinfo=UTC))
    path = tmp_path / "expired.pem"
    path.write_bytes(key + expired)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(path)
    with (
        socket.create_connection(door.address) as connection,
        context.wrap_socket(connection) as stranger,
    ):
        assert hears_nothing(stranger)
    assert door.says("it does not know the cluster's secret")


def test_one_that_only_talks_is_cut_off(make_door: Callable[[Credentials], Door]) -> None:
    door = make_door(OURS)
    with socket.create_connection(door.address) as stranger:
        stranger.settimeout(LIMIT_S)
        hello = b"\x01\x01\x00\x00" + bytes(65_536)  # of 64 KiB, in records of 1 KiB
        with suppress(ConnectionError):
            for start in range(0, len(hello), 1024):
                stranger.sendall(b"\x16\x03\x01\x04\x00" + hello[start : start + 1024])
    assert door.says(f"more than {HANDSHAKE_BYTES_MAX} bytes")


def test_ends_that_disagree_about_encryption_both_say_so(make_door: Callable[[Credentials], Door]) -> None:
    encrypting, plain = make_door(OURS), make_door(PLAIN)
    with pytest.raises(ProtocolError) as caught:
        encrypting.connect(PLAIN)
    assert str(caught.value) == f"it encrypts this connection, and this end does not: {ENCRYPT_ALIKE}"
    assert encrypting.says(f"it does not encrypt this connection, and this end does: {ENCRYPT_ALIKE}")
    with pytest.raises(ProtocolError) as caught:
        plain.connect(OURS)
    assert str(caught.value) == f"it does not encrypt this connection, and this end does: {ENCRYPT_ALIKE}"
    assert plain.says(f"it encrypts this connection, and this end does not: {ENCRYPT_ALIKE}")


def test_what_is_no_hailer_process_is_found_out_at_once() -> None:
    refused = pytest.raises(ProtocolError, match=r"does not speak this protocol, but began with b'SSH-2\.'")
    with ssh_server() as address, refused:
        connect_link(address, LINK, OURS, Patience(time.monotonic() + LIMIT_S, lambda: False))


@pytest.mark.parametrize(
    ("listening", "connecting", "local"),
    [("127.0.0.1", "127.0.0.1", True), ("127.0.0.2", "127.0.0.1", True), ("::1", "::1", True)],
)
def test_what_stays_on_this_machine_is_plain(listening: str, connecting: str, local: bool) -> None:
    family = socket.AF_INET6 if ":" in listening else socket.AF_INET
    with socket.create_server((listening, 0), family=family) as listener:
        near = socket.create_connection(listener.getsockname()[:2], source_address=(connecting, 0))
        far, _ = listener.accept()
        for end in (near, far):
            assert is_local(end) == local
            assert secured(end, replace(OURS, encryption=Encryption.BETWEEN_MACHINES), server_side=False) is end
            end.close()


class Elsewhere(socket.socket):
    """A connection to another machine, as far as its addresses go."""

    def getsockname(self) -> tuple[str, int]:
        return "10.0.0.1", 2101

    def getpeername(self) -> tuple[str, int]:
        return "10.0.0.2", 40_000


def test_what_leaves_this_machine_is_encrypted_unless_told_otherwise() -> None:
    with Elsewhere() as connection:
        assert not is_local(connection)
        assert isinstance(secured(connection, Credentials(b"s" * 32), server_side=True), TlsConnection)
        assert secured(connection, PLAIN, server_side=True) is connection


def test_without_the_package_the_client_is_told_and_the_acceptor_lives(
    make_door: Callable[[Credentials], Door], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever lacks `cryptography`: the next client on this machine still gets in."""
    door = make_door(OURS)

    def lacking(*_: object, **__: object) -> ssl.SSLContext:
        raise ConfigError("needs the package cryptography")

    with monkeypatch.context() as patch:
        patch.setattr(certificate, "tls_context", lacking)
        with pytest.raises(ConfigError):
            door.connect(OURS)
        assert door.says("needs the package cryptography")
    assert door.connect(OURS)


def test_a_selector_takes_it_for_a_socket(pair: tuple[TlsConnection, TlsConnection]) -> None:
    near, far = pair
    with selectors.DefaultSelector() as selector:
        selector.register(far, selectors.EVENT_READ)
        near.sendall(b"x")
        assert selector.select(LIMIT_S)
    assert far.getsockname() == near.getpeername()
