"""TCP links, through an endpoint on one side and a bare socket on the other."""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from framework.errors import RecordTooLarge, UnencodableRecord
from framework.membership.members import WorkerId
from framework.net import tcp_link
from framework.net.endpoint import Endpoint
from framework.wire import shm_messages
from framework.wire.codec import Buffer
from framework.wire.framing import FRAME_BYTES_MAX, FrameReader, frame
from framework.wire.messages import Abort, Data, Goodbye, Lost, Message, Progress, decode, encode
from tests.peers import receive

ME, PEER = WorkerId(0), WorkerId(1)
LIMIT_S = 20


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    far.settimeout(LIMIT_S)
    return near, far


@pytest.fixture
def link() -> Iterator[tuple[Endpoint, socket.socket]]:
    near, far = connected()
    endpoint = Endpoint(ME)
    endpoint.adopt(PEER, near)
    yield endpoint, far
    far.close()
    endpoint.close()


def read(far: socket.socket, count: int) -> list[Message]:
    reader = FrameReader()
    messages: list[Message] = []
    while len(messages) < count:
        messages.extend(decoded(reader.feed(far.recv(1 << 20))))
    return messages


def decoded(bodies: Iterable[Buffer]) -> list[Message]:
    """The messages for the worker; an offer of memory, which stays unanswered here, is none."""
    return [decode(body) for body in bodies if body[0] not in shm_messages.KINDS]


def test_messages_go_both_ways(link: tuple[Endpoint, socket.socket]) -> None:
    endpoint, far = link
    sent: list[Message] = [
        Data(1, 2, [("a", 1)]),
        Progress(0, 1, ((1, 2, 3),)),
        Progress(0, 2, ()),
        Data(1, 2, ["x" * 100_000]),
        Goodbye(),
    ]
    for message in sent:
        endpoint.send(PEER, message)
    endpoint.flush()
    assert read(far, 5) == sent
    far.sendall(b"".join(frame(encode(message)) for message in sent))
    assert receive(endpoint, 5) == sent


def test_what_came_with_the_handshake_is_received_without_waiting() -> None:
    near, far = connected()
    endpoint = Endpoint(ME)
    octets = frame(encode(Data(1, 2, [3]))) + frame(encode(Goodbye()))
    endpoint.adopt(PEER, near, octets[:-2])
    begin = time.monotonic()
    endpoint.park(LIMIT_S)
    endpoint.park(LIMIT_S)
    assert time.monotonic() - begin < LIMIT_S / 2
    assert endpoint.receive() == [(PEER, Data(1, 2, [3]))]
    far.sendall(octets[-2:])
    assert receive(endpoint, 1) == [Goodbye()]
    endpoint.close()
    far.close()


@pytest.mark.parametrize("last", [Goodbye(), Abort("because")])
def test_an_end_after_the_last_word_is_quiet(link: tuple[Endpoint, socket.socket], last: Message) -> None:
    endpoint, far = link
    far.sendall(frame(encode(last)))
    far.close()
    assert receive(endpoint, 1) == [last]
    endpoint.park(0.05)
    assert endpoint.receive() == []


def test_an_end_without_a_goodbye_is_a_loss_after_what_was_said(link: tuple[Endpoint, socket.socket]) -> None:
    endpoint, far = link
    far.sendall(frame(encode(Data(1, 2, [3]))))
    far.close()
    data, lost = receive(endpoint, 2)
    assert data == Data(1, 2, [3])
    assert isinstance(lost, Lost)
    assert "worker 1 at 127.0.0.1:" in lost.detail
    assert "closed" in lost.detail
    endpoint.send(PEER, Goodbye())
    endpoint.flush()
    assert not endpoint.congested()
    endpoint.park(0.01)
    assert endpoint.receive() == []


def test_a_reset_is_a_loss(link: tuple[Endpoint, socket.socket]) -> None:
    endpoint, far = link
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    far.close()
    (lost,) = receive(endpoint, 1)
    assert isinstance(lost, Lost)
    assert "failed" in lost.detail


def test_a_failing_write_leaves_the_loss_to_the_reader(link: tuple[Endpoint, socket.socket]) -> None:
    endpoint, far = link
    far.sendall(frame(encode(Abort("my last word"))))
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    far.close()
    for _ in range(3):
        endpoint.send(PEER, Data(1, 2, ["x" * 1_000_000]))
        endpoint.flush()
    assert receive(endpoint, 1) == [Abort("my last word")]


class Cramped(socket.socket):
    """A connection that lives, but for whose next write the system has no memory."""

    def sendmsg(self, *_: Any) -> int:
        raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))


def test_a_write_that_fails_on_a_connection_that_lives_loses_the_peer_and_not_the_message() -> None:
    near, far = connected()
    endpoint = Endpoint(ME)
    endpoint.adopt(PEER, Cramped(fileno=near.detach()))
    far.sendall(frame(encode(Data(1, 2, [3]))))
    endpoint.send(PEER, Data(1, 2, ["this must come across"]))
    endpoint.flush()
    data, lost = receive(endpoint, 2)
    assert data == Data(1, 2, [3])
    assert isinstance(lost, Lost)
    assert lost.detail.endswith(": a write failed: No buffer space available")
    assert far.recv(1) == b""
    far.close()
    endpoint.close()


@pytest.mark.parametrize("octets", [b"\xff\xff\xff\xff", frame(b"\x63garbage"), frame(b"")])
def test_a_broken_protocol_is_a_loss_with_a_line_in_the_log(
    link: tuple[Endpoint, socket.socket], octets: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint, far = link
    with caplog.at_level(logging.WARNING, "hailer.net"):
        far.sendall(frame(encode(Data(1, 2, [3]))))
        assert receive(endpoint, 1) == [Data(1, 2, [3])]
        far.sendall(octets)
        (lost,) = receive(endpoint, 1)
    assert isinstance(lost, Lost)
    assert "broke the protocol" in lost.detail
    assert len(caplog.records) == 1
    assert far.recv(1) == b""


def test_a_slow_peer_congests_and_then_gets_everything(link: tuple[Endpoint, socket.socket]) -> None:
    endpoint, far = link
    sent = 0
    while not endpoint.congested():
        endpoint.send(PEER, Data(0, sent, ["x" * 200_000]))
        endpoint.flush()
        sent += 1
        assert sent < 1_000
    reader = FrameReader()
    times: list[Any] = []
    while len(times) < sent:
        endpoint.park(0)
        times += [message.time for message in decoded(reader.feed(far.recv(1 << 20))) if isinstance(message, Data)]
    assert times == list(range(sent))
    assert not endpoint.congested()
    begin = time.monotonic()
    endpoint.park(0.02)
    assert time.monotonic() - begin >= 0.019


def test_one_receive_reads_a_bounded_amount(link: tuple[Endpoint, socket.socket]) -> None:
    endpoint, far = link
    body = frame(encode(Data(0, 0, ["x" * 60_000])))
    far.setblocking(False)
    outbound = memoryview(body * 100)
    counts = []
    received = 0
    deadline = time.monotonic() + LIMIT_S
    while received < 100 and time.monotonic() < deadline:
        try:
            outbound = outbound[far.send(outbound) :] if outbound else outbound
        except BlockingIOError:
            pass
        endpoint.park(LIMIT_S)
        counts.append(len(endpoint.receive()))
        received += counts[-1]
    assert received == 100
    assert max(counts) * 60_000 <= tcp_link.READ_BYTES_MAX + tcp_link.CHUNK_BYTES + 60_000


def test_drain_pushes_out_what_is_queued_and_keeps_what_comes(link: tuple[Endpoint, socket.socket]) -> None:
    endpoint, far = link
    for number in range(60):
        endpoint.send(PEER, Data(0, number, ["x" * 200_000]))
    assert endpoint.drain(0.01) is False
    far.sendall(frame(encode(Goodbye())))
    reader = FrameReader()
    count = 0
    while not endpoint.drain(0.001):
        count += len(decoded(reader.feed(far.recv(1 << 20))))
    while count < 60:
        count += len(decoded(reader.feed(far.recv(1 << 20))))
    assert receive(endpoint, 1) == [Goodbye()]


def test_a_closing_endpoint_gets_its_abort_across_although_the_peer_still_speaks(
    link: tuple[Endpoint, socket.socket],
) -> None:
    """The kernel still holds our words when we close, and words of the peer that nobody will read."""
    endpoint, far = link
    far.sendall(frame(encode(Data(0, 0, ["x" * 10_000]))))
    endpoint.send(PEER, Data(0, 0, ["y" * 1_000_000]))
    endpoint.send(PEER, Abort("because"))
    endpoint.flush()
    heard: list[Message] = []

    def listen() -> None:
        heard.extend(read(far, 2))
        far.close()

    endpoint.drain(0.01)
    listener = threading.Thread(target=listen)
    listener.start()
    endpoint.drain(LIMIT_S)
    begin = time.monotonic()
    endpoint.close()
    assert time.monotonic() - begin < 5
    listener.join(LIMIT_S)
    assert heard[1:] == [Abort("because")]


def test_a_close_does_not_wait_for_a_peer_that_never_ends(link: tuple[Endpoint, socket.socket]) -> None:
    endpoint, _ = link
    endpoint.send(PEER, Abort("because"))
    endpoint.flush()
    begin = time.monotonic()
    endpoint.close()
    assert time.monotonic() - begin < 5


def test_the_sender_of_a_record_that_cannot_travel_is_named(link: tuple[Endpoint, socket.socket]) -> None:
    endpoint, _ = link
    with pytest.raises(UnencodableRecord, match=r"^operator 'parse' sent a object"):
        endpoint.send(PEER, Data(4, 0, [object()]), where="operator 'parse'")
    with pytest.raises(RecordTooLarge, match=r"^operator 'parse' sent a record of"):
        endpoint.send(PEER, Data(4, 0, [b"x" * (FRAME_BYTES_MAX + 1)]), where="operator 'parse'")


def test_an_adoption_after_the_close_is_released() -> None:
    near, far = connected()
    endpoint = Endpoint(ME)
    endpoint.close()
    endpoint.close()
    endpoint.adopt(PEER, near)
    assert far.recv(1) == b""
    far.close()
