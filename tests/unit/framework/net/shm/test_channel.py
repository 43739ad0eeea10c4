"""Large bodies between processes of one machine: through memory that both see, or else through the socket."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from framework.membership.members import WorkerId
from framework.net.endpoint import Endpoint
from framework.net.shm import segment
from framework.net.shm.allocator import BlockAllocator
from framework.net.shm.channel import SHARED_BYTES_MIN, ShmChannel
from framework.net.shm.reservation import BEFORE_BYTES
from framework.net.shm.segment import InboundSegment, OutboundSegment
from framework.net.tcp_link import OUTBOUND_BYTES_MAX
from framework.wire import shm_messages
from framework.wire.body import Body
from framework.wire.container import Reservation
from framework.wire.framing import FRAME_BYTES_MAX, FrameReader, frame
from framework.wire.messages import Data, Goodbye, Lost, Message, decode, encode_whole
from framework.wire.shm_messages import BodyRef, Offer, OfferAnswer, Returned, ShmMessage
from tests.peers import receive

ME, PEER = WorkerId(0), WorkerId(1)
LIMIT_S = 20

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no anonymous files")


def batch(number: int, rows: int = 50_000) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(number, number + rows), pa.int64())})


class Far:
    """The other end of a link, by hand."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.reader = FrameReader()
        self.heard: list[ShmMessage | Message] = []
        self.received_bytes = 0

    def hear(self, count: int) -> list[ShmMessage | Message]:
        while len(self.heard) < count:
            data = self.connection.recv(1 << 20)
            assert data, "the link has ended"
            self.received_bytes += len(data)
            for body in self.reader.feed(data):
                about_memory = body[0] in shm_messages.KINDS
                self.heard.append(shm_messages.decode(body) if about_memory else decode(body))
        heard, self.heard = self.heard[:count], self.heard[count:]
        return heard

    def say(self, *messages: ShmMessage) -> None:
        self.connection.sendall(b"".join(frame(shm_messages.encode(message)) for message in messages))


@pytest.fixture
def link() -> Iterator[tuple[Endpoint, Far]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    far.settimeout(LIMIT_S)
    endpoint = Endpoint(ME)
    endpoint.adopt(PEER, near)
    yield endpoint, Far(far)
    far.close()
    endpoint.close()


def send(endpoint: Endpoint, *containers: object, reservation: Reservation | None = None) -> None:
    for container in containers:
        endpoint.send(PEER, Data(0, 0, container), reservation=reservation)  # type: ignore[arg-type]
    endpoint.flush()


def heard_by(endpoint: Endpoint) -> None:
    """Let an endpoint hear what was said about memory."""
    endpoint.park(LIMIT_S)
    assert endpoint.receive() == []


def accepted(endpoint: Endpoint, far: Far) -> InboundSegment:
    """The endpoint's memory, which it offers with its first large body."""
    send(endpoint, batch(0))
    data, offer = far.hear(2)
    assert data == Data(0, 0, batch(0))
    assert isinstance(offer, Offer)
    inbound = InboundSegment.open(offer)
    assert inbound is not None
    far.say(OfferAnswer(True))
    heard_by(endpoint)
    far.received_bytes = 0
    return inbound


def test_large_bodies_are_written_to_memory_in_order_and_small_ones_are_sent(link: tuple[Endpoint, Far]) -> None:
    endpoint, far = link
    inbound = accepted(endpoint, far)
    send(endpoint, batch(1), ["small"], batch(2), ["x" * SHARED_BYTES_MIN])
    first, small, second, rows = far.hear(4)
    assert far.received_bytes < 200
    assert small == Data(0, 0, ["small"])
    assert isinstance(first, BodyRef)
    assert isinstance(second, BodyRef)
    assert isinstance(rows, BodyRef)
    assert [decode(inbound.view(reference)) for reference in (first, second, rows)] == [
        Data(0, 0, batch(1)),
        Data(0, 0, batch(2)),
        Data(0, 0, ["x" * SHARED_BYTES_MIN]),
    ]


def test_a_block_comes_back_when_nothing_refers_to_it(link: tuple[Endpoint, Far]) -> None:
    endpoint, far = link
    inbound = accepted(endpoint, far)
    send(endpoint, batch(1))
    [reference] = far.hear(1)
    assert isinstance(reference, BodyRef)
    message = decode(inbound.view(reference))
    assert isinstance(message, Data)
    told = inbound.report()
    assert told == Returned(reference.size, ())
    column = message.container["n"].slice(40_000, 3)  # type: ignore[index]
    del message
    assert inbound.report() is None
    assert column.to_pylist() == [40_001, 40_002, 40_003]
    del column
    assert inbound.report() == Returned(reference.size, (reference.start,))


def test_what_was_returned_is_used_again(link: tuple[Endpoint, Far], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "SEGMENT_BYTES", 32 * 1024 * 1024)
    endpoint, far = link
    accepted(endpoint, far)
    total = 0
    for number in range(300):  # several times the segment
        send(endpoint, batch(number))
        [reference] = far.hear(1)
        assert isinstance(reference, BodyRef), number
        total += reference.size
        far.say(Returned(total, (reference.start,)))
        heard_by(endpoint)
    assert total > 2 * segment.SEGMENT_BYTES


def test_without_room_bodies_go_through_the_socket(link: tuple[Endpoint, Far], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "SEGMENT_BYTES", 1024 * 1024)
    endpoint, far = link
    accepted(endpoint, far)
    send(endpoint, batch(1), batch(2), batch(3))
    first, second, third = far.hear(3)
    assert isinstance(first, BodyRef)
    assert isinstance(second, BodyRef)
    assert third == Data(0, 0, batch(3))
    far.say(Returned(first.size, (first.start,)))
    heard_by(endpoint)
    send(endpoint, batch(4))
    assert far.hear(1) == [first]


def reserved(endpoint: Endpoint, *columns: np.ndarray[Any, Any], apart: int = 0) -> tuple[pa.RecordBatch, Reservation]:
    """A batch of numbers that were written to a reservation, with this number of bytes between columns."""
    reservation = endpoint.reserve(PEER, sum(column.nbytes + apart for column in columns))
    assert reservation is not None
    buffer, at, arrays = pa.py_buffer(reservation.memory), 0, []
    for column in columns:
        reservation.memory[at : at + column.nbytes] = column.tobytes()
        arrays.append(pa.Array.from_buffers(pa.int64(), len(column), [None, buffer.slice(at, column.nbytes)]))
        at += column.nbytes + apart
    return pa.record_batch(arrays, [f"n{number}" for number in range(len(arrays))]), reservation


def test_what_was_written_to_a_reservation_is_not_copied(
    link: tuple[Endpoint, Far], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, far = link
    inbound = accepted(endpoint, far)
    numbers = np.arange(50_000)
    sent, reservation = reserved(endpoint, numbers, numbers * 3)
    written = pa.py_buffer(sent["n0"].buffers()[1]).address
    monkeypatch.setattr(BlockAllocator, "allocate", lambda blocks, size: pytest.fail("nothing else is needed"))
    send(endpoint, sent, reservation=reservation)
    [reference] = far.hear(1)
    assert far.received_bytes < 200
    assert isinstance(reference, BodyRef)
    assert decode(inbound.view(reference)) == Data(0, 0, sent)
    # The same bytes, seen from both ends.
    first = memoryview((ctypes.c_char * 8).from_address(written)).cast("B")
    first[:] = (7).to_bytes(8, "little")
    message = decode(inbound.view(reference))
    assert isinstance(message, Data)
    assert message.container["n0"][0].as_py() == 7  # type: ignore[index]


def test_a_reserved_block_is_free_again_when_its_body_was_returned_or_nothing_was_sent(
    link: tuple[Endpoint, Far], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "SEGMENT_BYTES", 32 * 1024 * 1024)
    endpoint, far = link
    inbound = accepted(endpoint, far)
    numbers, total = np.arange(400_000), 0
    for number in range(40):  # several times the segment
        batch, reservation = reserved(endpoint, numbers)
        if number % 2:
            continue
        send(endpoint, batch, reservation=reservation)
        [reference] = far.hear(1)
        assert isinstance(reference, BodyRef)
        assert decode(inbound.view(reference)) == Data(0, 0, batch)
        total += reference.size
        far.say(Returned(total, (reference.start,)))
        heard_by(endpoint)
        inbound.report()
    assert 40 * numbers.nbytes > 3 * segment.SEGMENT_BYTES


def test_a_reservation_that_is_not_sent_is_released_with_the_last_reference_to_its_memory(
    link: tuple[Endpoint, Far],
) -> None:
    endpoint, far = link
    accepted(endpoint, far)
    size = segment.SEGMENT_BYTES // 2 + 1
    reservation = endpoint.reserve(PEER, size)
    assert reservation is not None
    assert endpoint.reserve(PEER, size) is None
    memory = reservation.memory
    del reservation
    assert endpoint.reserve(PEER, size) is None
    del memory
    assert endpoint.reserve(PEER, size) is not None


def test_a_reservation_is_for_one_body(link: tuple[Endpoint, Far]) -> None:
    """A container that is too large for a frame is cut in halves; what goes behind the first would be written over the
    begin of the second."""
    endpoint, far = link
    inbound = accepted(endpoint, far)
    numbers = np.arange(FRAME_BYTES_MAX // 8)
    sent, reservation = reserved(endpoint, numbers)
    send(endpoint, sent, reservation=reservation)
    halves = []
    for reference in far.hear(2):
        assert isinstance(reference, BodyRef)
        message = decode(inbound.view(reference))
        assert isinstance(message, Data)
        halves.append(message.container)
    assert pa.concat_batches(halves) == pa.record_batch({"n0": numbers})


def test_a_reservation_of_another_link_is_copied_from(link: tuple[Endpoint, Far]) -> None:
    endpoint, far = link
    inbound = accepted(endpoint, far)
    sent, _ = reserved(endpoint, np.arange(30_000))
    other = OutboundSegment.open()
    assert other is not None
    send(endpoint, sent, reservation=other.reserve(sent.nbytes))
    [reference] = far.hear(1)
    assert isinstance(reference, BodyRef)
    assert decode(inbound.view(reference)) == Data(0, 0, sent)
    other.close()


@pytest.mark.parametrize("what", ["apart", "in another order", "a slice", "sent twice"])
def test_what_does_not_lie_in_a_reservation_as_on_the_wire_is_copied(link: tuple[Endpoint, Far], what: str) -> None:
    endpoint, far = link
    inbound = accepted(endpoint, far)
    numbers = np.arange(30_000)
    sent, reservation = reserved(endpoint, numbers, numbers * 3, numbers * 5, apart=64 if what == "apart" else 0)
    match what:
        case "in another order":
            sent = sent.select(["n0", "n2", "n1"])
        case "a slice":
            sent = sent.slice(10)
        case "sent twice":
            send(endpoint, sent, reservation=reservation)
            far.hear(1)
    expected = pa.RecordBatch.from_pydict({name: sent[name].to_pylist() for name in sent.schema.names})
    send(endpoint, sent, reservation=reservation)
    [reference] = far.hear(1)
    assert isinstance(reference, BodyRef)
    assert decode(inbound.view(reference)) == Data(0, 0, expected)
    assert sent == expected, "nothing was written over"


def test_what_lies_elsewhere_is_copied_between_what_lies_in_a_reservation(link: tuple[Endpoint, Far]) -> None:
    endpoint, far = link
    inbound = accepted(endpoint, far)
    numbers = np.arange(30_000)
    sent, reservation = reserved(endpoint, numbers, numbers * 3, numbers * 5)
    sent = sent.set_column(1, "n1", pa.array(numbers * 7))
    send(endpoint, sent, reservation=reservation)
    [reference] = far.hear(1)
    assert isinstance(reference, BodyRef)
    assert decode(inbound.view(reference)) == Data(0, 0, sent)


def test_a_body_with_more_before_its_pieces_than_a_reservation_has_is_copied(link: tuple[Endpoint, Far]) -> None:
    """Or it would be written over the end of another."""
    endpoint, far = link
    inbound = accepted(endpoint, far)
    before, first_reservation = reserved(endpoint, np.arange(30_000))
    wide, reservation = reserved(endpoint, *(np.arange(1_000) + number for number in range(100)))
    assert len(wide.schema.serialize()) > BEFORE_BYTES
    send(endpoint, wide, reservation=reservation)
    send(endpoint, before, reservation=first_reservation)
    first, second = far.hear(2)
    assert isinstance(first, BodyRef)
    assert isinstance(second, BodyRef)
    assert decode(inbound.view(first)) == Data(0, 0, wide)
    told = decode(inbound.view(second))
    assert isinstance(told, Data)
    assert told.container["n0"].to_pylist() == list(range(30_000))  # type: ignore[index]


def test_nothing_is_reserved_for_what_would_not_be_shared(link: tuple[Endpoint, Far]) -> None:
    endpoint, far = link
    assert endpoint.reserve(PEER, SHARED_BYTES_MIN) is None, "before a segment is mapped"
    accepted(endpoint, far)
    assert endpoint.reserve(PEER, SHARED_BYTES_MIN - 1) is None
    assert endpoint.reserve(PEER, segment.SEGMENT_BYTES) is None
    assert endpoint.reserve(WorkerId(7), SHARED_BYTES_MIN) is None
    reservation = endpoint.reserve(PEER, SHARED_BYTES_MIN)
    assert reservation is not None
    endpoint.close()
    reservation.memory[:4] = b"late"  # which is still there
    assert endpoint.reserve(PEER, SHARED_BYTES_MIN) is None


def test_a_peer_congests_by_what_it_has_not_read_and_not_by_what_it_keeps(link: tuple[Endpoint, Far]) -> None:
    """It may keep batches until our own frontier moves: were we to wait for them, both would wait for ever."""
    endpoint, far = link
    accepted(endpoint, far)
    sent = 0
    while not endpoint.congested():
        send(endpoint, batch(sent))
        sent += 1
        assert sent < 100
    references = far.hear(sent)
    sizes = [one.size for one in references if isinstance(one, BodyRef)]
    assert len(sizes) == sent
    assert sum(sizes) > OUTBOUND_BYTES_MAX
    far.say(Returned(sum(sizes), ()))
    heard_by(endpoint)
    assert not endpoint.congested()


def test_an_end_that_cannot_see_the_memory_gets_everything_through_the_socket(link: tuple[Endpoint, Far]) -> None:
    endpoint, far = link
    send(endpoint, batch(0))
    far.hear(2)
    far.say(OfferAnswer(False))
    heard_by(endpoint)
    send(endpoint, batch(1), batch(2))
    assert far.hear(2) == [Data(0, 0, batch(1)), Data(0, 0, batch(2))]


def test_until_the_offer_is_answered_bodies_go_through_the_socket(link: tuple[Endpoint, Far]) -> None:
    endpoint, far = link
    send(endpoint, batch(0), batch(1))
    data, offer, more = far.hear(3)
    assert (data, more) == (Data(0, 0, batch(0)), Data(0, 0, batch(1)))
    assert isinstance(offer, Offer)


def test_what_the_other_end_writes_is_read_in_place_and_returned(link: tuple[Endpoint, Far]) -> None:
    endpoint, far = link
    outbound = OutboundSegment.open()
    assert outbound is not None
    far.say(outbound.offer)
    heard_by(endpoint)
    endpoint.flush()
    assert far.hear(1) == [OfferAnswer(True)]
    sent, starts = 0, []
    for number in range(4):
        [body] = encode_whole(Data(7, number, batch(number)))
        reference = outbound.write([body[:100], body[100:]], len(body))
        assert reference is not None
        far.say(reference)
        sent += reference.size
        starts.append(reference.start)
    messages = receive(endpoint, 4)
    assert messages == [Data(7, number, batch(number)) for number in range(4)]
    del messages[:2]
    endpoint.flush()
    [returned] = far.hear(1)
    assert isinstance(returned, Returned)
    assert (returned.read_bytes, set(returned.starts)) == (sent, set(starts[:2]))
    outbound.take_back(returned)
    assert outbound.unread_bytes == 0
    outbound.close()
    assert messages == [Data(7, number, batch(number)) for number in (2, 3)]


@pytest.mark.parametrize(
    "nonsense",
    [
        BodyRef(64, 100),
        OfferAnswer(True),
        Returned(0, ()),
    ],
)
def test_talk_of_memory_that_was_not_offered_ends_the_link(link: tuple[Endpoint, Far], nonsense: ShmMessage) -> None:
    endpoint, far = link
    far.say(nonsense)
    [lost] = receive(endpoint, 1)
    assert isinstance(lost, Lost)
    assert "broke the protocol" in lost.detail


@pytest.mark.parametrize("nonsense", [BodyRef(0, 100), BodyRef(64, 0), BodyRef(2**40, 64), BodyRef(64, 2**40)])
def test_a_body_outside_of_the_memory_ends_the_link(link: tuple[Endpoint, Far], nonsense: BodyRef) -> None:
    endpoint, far = link
    outbound = OutboundSegment.open()
    assert outbound is not None
    far.say(outbound.offer, nonsense)
    [lost] = receive(endpoint, 1)
    assert isinstance(lost, Lost)
    assert "where none can be" in lost.detail
    outbound.close()


@pytest.mark.parametrize(
    "nonsense", [Returned(10**9, ()), Returned(0, (64,)), OfferAnswer(True)], ids=["too much", "not in use", "twice"]
)
def test_nonsense_about_what_this_end_wrote_ends_the_link(link: tuple[Endpoint, Far], nonsense: ShmMessage) -> None:
    endpoint, far = link
    accepted(endpoint, far)
    far.say(nonsense)
    [lost] = receive(endpoint, 1)
    assert isinstance(lost, Lost)
    assert "broke the protocol" in lost.detail


def test_who_is_elsewhere_is_offered_nothing() -> None:
    body: Body = [b"x" * SHARED_BYTES_MIN]
    assert ShmChannel(offers=False).bodies(body, SHARED_BYTES_MIN) == [body]


def test_nothing_is_left_open_when_a_link_has_ended(link: tuple[Endpoint, Far]) -> None:
    endpoint, far = link
    send(endpoint, batch(0))
    _, offer = far.hear(2)
    assert isinstance(offer, Offer)
    assert open_memory()
    endpoint.send(PEER, Goodbye())
    endpoint.flush()
    far.connection.close()
    endpoint.close()
    assert not open_memory()
    assert InboundSegment.open(offer) is None


def open_memory() -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [path for path in found if "hailer-link" in path]
