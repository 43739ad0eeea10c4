"""Messages and their bytes: round trips, splitting, and what is refused."""

from __future__ import annotations

import msgpack
import pytest

from framework.errors import ProtocolError, RecordTooLarge, UnencodableRecord
from framework.progress.order import Product, Time
from framework.wire.checks import TIME_DEPTH_MAX
from framework.wire.codec import encode_value
from framework.wire.messages import (
    ALIGNMENT,
    REPORT_CHARS_MAX,
    Abort,
    Built,
    Data,
    Goodbye,
    Lost,
    Message,
    Progress,
    decode,
    encode,
    encode_data,
)


def deep_time(depth: int) -> Time:
    time: Time = 2**63 - 1
    for _ in range(depth):
        time = Product(time, 2**63 - 1)
    return time


@pytest.mark.parametrize(
    "message",
    [
        Data(0, 0, []),
        Data(2**63 - 1, 2**63 - 1, [("a", 1), ("b", 2)]),
        Data(1, Product(Product(1, 2), 3), [{"a": (1,)}]),
        Data(1, deep_time(TIME_DEPTH_MAX), ["x"]),
        Progress(0, 7, ()),
        Progress(3, 2**63 - 1, ((1, 2, -3), (4, Product(5, 6), 2**63 - 1), (0, deep_time(TIME_DEPTH_MAX), 0))),
        Built(1, b"\x00" * 32),
        Goodbye(),
        Abort("it broke\nhere: é"),
    ],
)
def test_a_message_comes_back(message: Message) -> None:
    decoded = decode(encode(message))
    assert decoded == message
    assert decode(memoryview(encode(message))) == message
    if isinstance(message, Data) and isinstance(decoded, Data):
        assert type(decoded.time) is type(message.time)


def test_lost_never_travels() -> None:
    with pytest.raises(AssertionError):
        encode(Lost("gone"))


def test_a_long_report_loses_its_middle() -> None:
    message = decode(encode(Abort("a" * REPORT_CHARS_MAX + "end \ud800")))
    assert isinstance(message, Abort)
    assert len(message.report) < REPORT_CHARS_MAX + 100
    assert message.report.startswith("aaa")
    assert message.report.endswith("end \\ud800")
    assert "characters left out" in message.report


def test_large_data_is_split_in_order() -> None:
    rows = [("word" * 10, number) for number in range(1000)]
    bodies = [b"".join(pieces) for pieces in encode_data(Data(3, Product(1, 2), rows), frame_bytes_max=2_000)]
    parts = [decode(body) for body in bodies]
    assert max(map(len, bodies)) <= 2_000
    assert len(bodies) < 64
    assert all(isinstance(part, Data) and (part.channel, part.time) == (3, Product(1, 2)) for part in parts)
    assert [row for part in parts if isinstance(part, Data) for row in part.container] == rows  # type: ignore[attr-defined]


def test_one_record_that_exceeds_a_frame_is_refused() -> None:
    with pytest.raises(RecordTooLarge, match=r"operator 'load' sent a record of \d{4} bytes .* limit is 2000"):
        encode_data(Data(0, 0, ["a", "x" * 3_000, "b"]), "operator 'load'", frame_bytes_max=2_000)


def test_an_unencodable_record_names_its_sender() -> None:
    with pytest.raises(UnencodableRecord, match=r"^operator 'load' sent a object"):
        encode(Data(0, 0, [object()]), "operator 'load'")


def body(kind: int, fields: object) -> bytes:
    return bytes((kind, *msgpack.packb(fields)))


def data_body(header: object, payload: bytes = b"\x92\x00\x91\x90", container: int = 0) -> bytes:
    packed = msgpack.packb(header)
    head = bytes((1, container, len(packed), *packed))
    return head + bytes(-len(head) % ALIGNMENT) + payload


@pytest.mark.parametrize(
    "malformed",
    [
        b"",
        b"\x00",
        b"\xff\x90",
        b"\x01",
        b"\x01\x00",
        b"\x01\x00\x40\x92\x00\x00",
        data_body([0, 0], b""),
        data_body([0, 0], b"\x92\x00\x91\x90\x00"),
        data_body([0, 0], container=9),
        data_body([0]),
        data_body([-1, 0]),
        data_body([0, -1]),
        data_body([0, 2**63]),
        data_body([0, True]),
        data_body([True, 0]),
        data_body([0, 1.0]),
        data_body([0, None]),
        data_body([0, [1]]),
        data_body([0, [1, 2, 3]]),
        data_body([0, [1, [2, 3]]]),
        data_body([0, "ab"]),
        data_body([0, deep_time(TIME_DEPTH_MAX + 1)]),
        body(2, [0, 0]),
        body(2, [0, 0, None]),
        body(2, [0, 0, [[0, 0]]]),
        body(2, [0, 0, [[0, 0, "x"]]]),
        body(2, [0, 0, [[0, 0, 1.0]]]),
        body(2, [0, 0, [[0, 0, 2**63]]]),
        body(2, [0, 0, [[-1, 0, 1]]]),
        body(2, [0, -1, []]),
        b"\x02\x93" + b"\x91" * 1000 + b"\x90\x00\x90",
        b"\x02\x93\x00\x00\x91\x93\x00" + b"\x91" * 1000 + b"\x90\x00",
        b"\x02\x93" + encode_value(10**5000) + b"\x00\x90",
        body(3, [0, "text"]),
        body(3, [0]),
        body(4, [0]),
        body(4, []) + b"\x00",
        body(5, [b"bytes"]),
        body(5, "text"),
        body(6, []),
    ],
)
def test_a_malformed_body_is_a_protocol_error(malformed: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(malformed)
