"""The body of a frame: a byte for the kind of message, and then its fields as one msgpack array.

A `Data` has its container behind a header of its own instead: see `framework.wire.messages`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from framework.wire.codec import Buffer, encode_fields

Body: TypeAlias = list[Buffer]
"""What one frame holds, in pieces, which need not be joined to be written."""


class MessageKind:
    """The first byte of a body. (Dotted names, which `match` compares with rather than binds.)

    Those of a `RescaleMessage`, from 16 on, are in `framework.membership.messages`.
    """

    DATA = 1
    PROGRESS = 2
    BUILT = 3
    GOODBYE = 4
    ABORT = 5
    SHM_OFFER = 6
    SHM_ANSWER = 7
    SHM_BODY = 8
    SHM_RETURNED = 9


def compose(kind: int, *fields: Any) -> bytes:
    """The body of one frame."""
    return bytes((kind,)) + encode_fields(fields)
