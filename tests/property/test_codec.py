"""The wire on anything: values and messages come back as they were, and no bytes raise anything but `ProtocolError`."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field, fields
from datetime import timedelta, timezone
from enum import Enum, Flag, auto
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import PeerRefused, ProtocolError, SecretMismatch
from framework.membership.members import WorkerId
from framework.progress.order import EPOCH_MAX, Product, Time
from framework.wire.codec import decode_rows, decode_value, encode_rows, encode_value
from framework.wire.credentials import Credentials
from framework.wire.framing import FrameReader, frame
from framework.wire.handshake import RUN_CHARS_MAX, VERSION, Accepted, ClientHandshake, Rejected, ServerHandshake
from framework.wire.messages import Abort, Built, Data, Goodbye, Message, Progress, decode, encode, encode_data
from framework.wire.purpose import BrokerConnection, ExecutorStream, JoinerLink, Purpose, WorkerLink
from framework.wire.purpose import decode as decode_purpose
from framework.wire.purpose import encode as encode_purpose


class Side(Enum):
    BUY = "b"
    SELL = "s"


class Rights(Flag):
    READ = auto()
    WRITE = auto()


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True, slots=True)
class Price:
    amount: Any


@dataclass
class Basket:
    items: Any
    note: Any
    made: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.made += 1


zones = st.none() | st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))
text = st.text(st.characters())
hashables = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | text
    | st.binary()
    | st.datetimes(timezones=zones)
    | st.dates()
    | st.times(timezones=zones)
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.complex_numbers()
    | st.sampled_from(Side)
    | st.sampled_from([Rights(0), Rights.READ, Rights.READ | Rights.WRITE])
    | st.builds(np.int16, st.integers(-(2**15), 2**15 - 1))
    | st.builds(np.float32, st.floats(width=32))
    | st.builds(np.str_, text)
    | st.builds(np.datetime64, st.datetimes(), st.just("us")),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.frozensets(inner, max_size=3)
        | st.builds(Point, inner, inner)
        | st.builds(Price, inner)
    ),
    max_leaves=6,
)
values: st.SearchStrategy[Any] = st.recursive(
    hashables | st.sets(hashables, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(hashables, inner, max_size=3)
        | st.dictionaries(hashables, inner, max_size=3).map(Counter)
        | st.dictionaries(hashables, inner, max_size=3).map(partial(defaultdict, list))
        | st.builds(deque, st.lists(inner, max_size=3), st.integers(3, 4) | st.none())
        | st.builds(Basket, inner, inner)
    ),
    max_leaves=12,
)
times: st.SearchStrategy[Time] = st.recursive(
    st.integers(0, 2**63 - 1), lambda inner: st.builds(Product, inner, st.integers(0, 2**63 - 1)), max_leaves=5
)
naturals = st.integers(0, 2**63 - 1)


@st.composite
def uniform_rows(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Tuples of one length: the rows that are transposed."""
    columns = draw(st.lists(st.one_of(st.just(text), st.just(st.integers()), st.just(values)), min_size=1, max_size=4))
    return draw(st.lists(st.tuples(*columns), max_size=8))


messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Data, naturals, times, uniform_rows() | st.lists(values, max_size=4)),
    st.builds(
        Progress,
        naturals,
        naturals,
        st.lists(st.tuples(naturals, times, st.integers(-(2**62), 2**62)), max_size=5).map(tuple),
    ),
    st.builds(Built, naturals, st.binary(max_size=40)),
    st.just(Goodbye()),
    st.builds(Abort, st.text(max_size=40)),
)


def shown(value: Any) -> Any:
    """A form in which equal means: equal in type and value at every depth, NaN and the sign of zero included."""
    kind = type(value).__name__
    if isinstance(value, Price | Basket):
        return kind, [shown(getattr(value, item.name)) for item in fields(value)]
    if isinstance(value, deque):
        return kind, value.maxlen, shown(list(value))
    if isinstance(value, dict):
        return kind, getattr(value, "default_factory", None), [(shown(key), shown(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return kind, [shown(item) for item in value]
    if isinstance(value, set | frozenset):
        return kind, sorted(repr(shown(item)) for item in value)
    return kind, repr(value)


@given(values)
def test_a_value_comes_back(value: Any) -> None:
    assert shown(decode_value(encode_value(value))) == shown(value)


@given(st.lists(values, max_size=5) | uniform_rows())
def test_rows_come_back(rows: list[Any]) -> None:
    assert shown(decode_rows(encode_rows(rows))) == shown(rows)
    assert shown(decode_rows(memoryview(encode_rows(rows)))) == shown(rows)


@given(messages)
def test_a_message_comes_back(message: Message) -> None:
    back = decode(encode(message))
    if isinstance(message, Data):
        assert isinstance(back, Data)
        assert (back.channel, shown(back.time), shown(back.container)) == (
            message.channel,
            shown(message.time),
            shown(message.container),
        )
    else:
        assert back == message


@given(uniform_rows(), st.integers(0, 2_000))
def test_splitting_keeps_every_record_and_the_limit(rows: list[Any], slack: int) -> None:
    largest = max((len(encode(Data(1, 2, [row]))) for row in rows), default=0)
    limit = max(largest, len(encode(Data(1, 2, [])))) + slack
    bodies = [b"".join(pieces) for pieces in encode_data(Data(1, 2, rows), frame_bytes_max=limit)]
    parts = [decode(body) for body in bodies]
    assert all(len(body) <= limit for body in bodies)
    assert shown([row for part in parts for row in part.container]) == shown(rows)  # type: ignore[union-attr]


@given(st.lists(st.binary(max_size=30), max_size=10), st.lists(st.integers(0, 400), max_size=12))
def test_frames_survive_any_cut(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(frame, bodies))
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    reader = FrameReader(frame_bytes_max=30)
    read = [bytes(body) for start, end in itertools.pairwise(edges) for body in reader.feed(stream[start:end])]
    assert read == bodies


@st.composite
def damaged(draw: st.DrawFn, original: st.SearchStrategy[bytes]) -> bytes:
    """Bytes that were right, and then were cut, lengthened or changed in a few places."""
    octets = bytearray(draw(original))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(octets)))
        match draw(st.sampled_from(["change", "cut", "insert"])):
            case "change" if place < len(octets):
                octets[place] = draw(st.integers(0, 255))
            case "cut":
                del octets[place:]
            case "insert":
                octets[place:place] = draw(st.binary(max_size=6))
    return bytes(octets)


@given(st.binary(max_size=200) | damaged(values.map(encode_value)))
def test_no_bytes_break_the_codec(octets: bytes) -> None:
    for read in (decode_value, decode_rows):
        try:
            read(octets)
        except ProtocolError:
            pass


@given(st.binary(max_size=200) | damaged(messages.map(encode)))
def test_no_body_breaks_the_decoding_of_messages(octets: bytes) -> None:
    try:
        decode(octets)
    except ProtocolError:
        pass


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_no_bytes_break_framing(chunks: list[bytes]) -> None:
    reader = FrameReader(frame_bytes_max=50)
    try:
        for chunk in chunks:
            assert all(len(body) <= 50 for body in reader.feed(chunk))
            assert reader.pending_bytes <= 54
    except ProtocolError:
        pass


OPENING = b"HAILER" + VERSION.to_bytes(2, "big")
numbers = st.integers(0, EPOCH_MAX)
workers = numbers.map(WorkerId)
purposes: st.SearchStrategy[Purpose] = (
    st.builds(WorkerLink, numbers, numbers, workers, workers)
    | st.builds(JoinerLink, numbers, workers, workers)
    | st.builds(ExecutorStream, numbers, numbers, numbers)
    | st.just(BrokerConnection())
)


@given(purposes)
def test_a_purpose_arrives_as_it_was(purpose: Purpose) -> None:
    assert decode_purpose(encode_purpose(purpose)) == purpose


@given(st.binary(max_size=60) | damaged(purposes.map(encode_purpose)))
def test_no_bytes_break_the_decoding_of_purposes(octets: bytes) -> None:
    try:
        decode_purpose(octets)
    except ProtocolError:
        pass


@given(st.lists(st.binary(max_size=60) | damaged(st.just(OPENING + b"n" * 32)), max_size=5))
def test_nobody_is_accepted_without_the_secret(chunks: list[bytes]) -> None:
    server = ServerHandshake(Credentials(b"s" * 32), b"n" * 32, (WorkerLink,), lambda link: None)
    for chunk in chunks:
        _, outcome = server.receive(chunk)
        assert not isinstance(outcome, Accepted)
        if isinstance(outcome, Rejected):
            return


@given(st.lists(st.binary(max_size=60) | damaged(st.just(OPENING + b"n" * 64)), max_size=5))
def test_no_server_without_the_secret_is_believed(chunks: list[bytes]) -> None:
    client = ClientHandshake(Credentials(b"s" * 32), b"n" * 32, WorkerLink(2, 1, WorkerId(1), WorkerId(0)))
    try:
        for chunk in chunks:
            assert client.receive(chunk)[1] is None
    except (ProtocolError, SecretMismatch, PeerRefused):
        pass


runs = st.text(max_size=RUN_CHARS_MAX)


@given(st.data(), purposes, runs)
def test_both_ends_agree_on_every_byte_that_was_said(data: st.DataObject, purpose: Purpose, run: str) -> None:
    """Somebody in between changes one byte of one of the four messages: never are both ends content."""
    credentials = Credentials(b"s" * 32, run)
    client = ClientHandshake(credentials, b"c" * 32, purpose)
    server = ServerHandshake(credentials, b"n" * 32, (type(purpose),), lambda purpose: None)
    changed = data.draw(st.integers(0, 3), "message")

    def pass_on(number: int, message: bytes) -> bytes:
        if number != changed or not message:
            return message
        place = data.draw(st.integers(0, len(message) - 1), "place")
        other = message[place] ^ data.draw(st.integers(1, 255), "difference")
        return message[:place] + bytes([other]) + message[place + 1 :]

    try:
        answer, _ = server.receive(pass_on(0, client.opening))
        said, _ = client.receive(pass_on(1, answer))
        verdict, outcome = server.receive(pass_on(2, said))
        assert not (isinstance(outcome, Accepted) and client.receive(pass_on(3, verdict))[1])
    except (ProtocolError, SecretMismatch, PeerRefused):
        pass


def test_equality_of_the_tests_tells_zeros_and_nans_apart() -> None:
    assert shown((0.0, math.nan)) != shown((-0.0, math.nan))
    assert shown([1, True]) != shown([1, 1])
