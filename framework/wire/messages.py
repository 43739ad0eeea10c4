"""What one worker says to another, and the bytes of it: the body of one frame.

The fields of `Data` are a container of any size behind a short header; those of the others are one msgpack array. Times
travel as an integer, or as nested pairs (`Product`). Whatever is wrong with a body, `decode` raises `ProtocolError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from framework.errors import ProtocolError, RecordTooLarge
from framework.membership.messages import RescaleMessage, from_shape, shape_of
from framework.progress.order import Time
from framework.wire import checks
from framework.wire.body import Body, MessageKind, compose
from framework.wire.codec import Buffer, decode_value, encode_fields
from framework.wire.container import Container, decode_container, encode_container, split_container
from framework.wire.framing import FRAME_BYTES_MAX

REPORT_CHARS_MAX = 65_536
"""A longer report of an abort loses its middle."""

ALIGNMENT = 8
"""A container begins at a multiple of this in a body, so that it can be used in place."""


@dataclass(frozen=True, slots=True)
class Data:
    """Records of one channel at one time."""

    channel: int
    time: Time
    container: Container


@dataclass(frozen=True, slots=True)
class Progress:
    """One atomic batch of changes, each a location, a time and a difference, and its place in the sender's order."""

    channel: int
    sequence: int
    changes: tuple[tuple[int, Time, int], ...]


@dataclass(frozen=True, slots=True)
class Built:
    """The sender has put together a dataflow, which has this fingerprint."""

    dataflow: int
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The sender has nothing more to say; the link may end."""


@dataclass(frozen=True, slots=True)
class Abort:
    """The sender ends the job, for this reason; the link may end."""

    report: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A link ended without a last word. Found out locally; never on the wire."""

    detail: str


Message: TypeAlias = Data | Progress | Built | Goodbye | Abort | Lost | RescaleMessage


def encode(message: Message, where: str = "this job") -> bytes:
    """The body of one frame. A `Data` that may exceed a frame goes through `encode_data` instead."""
    match message:
        case Data():
            return b"".join(_data_body(message, where))
        case Progress(channel, sequence, changes):
            return compose(MessageKind.PROGRESS, channel, sequence, changes)
        case Built(dataflow, fingerprint):
            return compose(MessageKind.BUILT, dataflow, fingerprint)
        case Goodbye():
            return compose(MessageKind.GOODBYE)
        case Abort(report):
            return compose(MessageKind.ABORT, _shorten(report))
        case Lost():
            raise AssertionError(f"{message} is a local fact")
        case _:
            kind, fields = shape_of(message)
            return compose(kind, *fields)


def encode_data(message: Data, where: str = "this job", *, frame_bytes_max: int = FRAME_BYTES_MAX) -> list[Body]:
    """The bodies of as many frames as the records need, in order. One record that exceeds a frame raises."""
    body = _data_body(message, where)
    size = sum(map(len, body))
    if size <= frame_bytes_max:
        return [body]
    if len(message.container) < 2:
        raise RecordTooLarge(
            f"{where} sent a record of {size} bytes to another worker, and the limit is {frame_bytes_max}; "
            f"send the parts of it as records of their own"
        )
    return [
        body
        for half in split_container(message.container)
        for body in encode_data(Data(message.channel, message.time, half), where, frame_bytes_max=frame_bytes_max)
    ]


def encode_whole(message: Message, where: str = "this job") -> list[bytes]:
    """The bodies of as many frames as a message needs, each in one piece."""
    bodies = encode_data(message, where) if isinstance(message, Data) else [[encode(message)]]
    return [b"".join(body) for body in bodies]


def decode(body: Buffer) -> Message:
    """The message in the body of a frame, or `ProtocolError`."""
    if not len(body):
        raise ProtocolError("an empty message")
    kind = body[0]
    if kind == MessageKind.DATA:
        return _decode_data(body)
    fields = decode_value(body[1:])
    match kind, fields:
        case MessageKind.PROGRESS, [channel, sequence, list(changes)]:
            return Progress(checks.natural(channel), checks.natural(sequence), tuple(map(checks.change, changes)))
        case MessageKind.BUILT, [dataflow, bytes(fingerprint)]:
            return Built(checks.natural(dataflow), fingerprint)
        case MessageKind.GOODBYE, []:
            return Goodbye()
        case MessageKind.ABORT, [str(report)]:
            return Abort(report)
    rescale = from_shape(kind, fields)
    if rescale is not None:
        return rescale
    raise ProtocolError(f"no message of kind {kind} has such fields")


def _data_body(message: Data, where: str) -> Body:
    number, payload = encode_container(message.container, where)
    header = encode_fields((message.channel, message.time))
    head = bytes((MessageKind.DATA, number, len(header))) + header
    return [head + bytes(-len(head) % ALIGNMENT), *payload]


def _decode_data(body: Buffer) -> Data:
    if len(body) < 3:
        raise ProtocolError("data without a header")
    start = 3 + body[2]
    match decode_value(body[3:start]):
        case [channel, time]:
            container = decode_container(body[1], body[start + -start % ALIGNMENT :])
            return Data(checks.natural(channel), checks.time(time), container)
    raise ProtocolError("data whose header is not a channel and a time")


def _shorten(report: str) -> str:
    if len(report) <= REPORT_CHARS_MAX:
        return report
    half = REPORT_CHARS_MAX // 2
    return f"{report[:half]}\n[{len(report) - 2 * half} characters left out]\n{report[-half:]}"
