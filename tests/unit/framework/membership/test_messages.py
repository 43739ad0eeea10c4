"""Messages of joins and leaves: each comes back as it was, and nothing else is taken for one."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from framework.errors import ProtocolError
from framework.membership.members import WorkerId
from framework.membership.messages import (
    _SHAPES,
    Admit,
    Ask,
    Done,
    Enlist,
    Enlisted,
    Farewell,
    First,
    Forget,
    Grant,
    Join,
    Joined,
    JoinState,
    Leaving,
    Linked,
    Missing,
    Queued,
    Ready,
    Refuse,
    Released,
    RescaleMessage,
    Roster,
    ScopeState,
    Settled,
    Want,
    Wish,
    shape_of,
)
from framework.progress.order import Product
from framework.wire.codec import encode_fields
from framework.wire.messages import decode, encode

ONE, TWO = WorkerId(1), WorkerId(2**40)
HOME = ("::1", 2101)

MESSAGES: list[RescaleMessage] = [
    Ask(ONE, TWO),
    Queued(TWO, 3),
    Grant(TWO),
    Done(TWO),
    Join(HOME),
    Refuse("no"),
    Roster(7, ((ONE, HOME), (TWO, ("host", 0))), (ONE,), (ONE, TWO)),
    Linked(),
    Admit(TWO, HOME, 4),
    ScopeState(3, ((1, 5, -2), (2, Product(5, 6), 2**40)), ((9, 0, 1),), ((1, 7), (2, 0))),
    JoinState(
        2, 17, ((0, b"f" * 16), (1, b"")), ((0, 5),), (("0.3", 1, Product(1, 2)), ("0.1", 0, 4)), ((ONE, 0, 2**63 - 1),)
    ),
    First(((0, 5), (3, 0))),
    Want(((0, ONE, 3, 5),)),
    Missing(0, ONE, 4, ((1, 5, -2),)),
    Ready(),
    Enlist(TWO),
    Enlisted(TWO),
    Joined(TWO),
    Forget(TWO),
    Settled(TWO),
    Wish(TWO),
    Leaving(3),
    Released(),
    Farewell(),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_there_and_back(message: RescaleMessage):
    assert decode(encode(message)) == message
    assert type(decode(encode(message))) is type(message)


def test_every_message_is_tried():
    assert (
        {type(message) for message in MESSAGES}
        == {kind for kind, _ in _SHAPES.values()}
        == set(get_args(RescaleMessage))
    )


BAD: list[Any] = [None, -1, 2**63, 1.5, True, "x", b"x", [], [[]], [1], {}, [["", 70_000]]]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_other_fields_are_refused(message: RescaleMessage):
    kind, fields = shape_of(message)
    others: list[tuple[Any, ...]] = [(*fields, 0), fields[:-1]] if fields else [(0,)]
    for index, field in enumerate(fields):
        others += [
            (*fields[:index], bad, *fields[index + 1 :]) for bad in BAD if type(bad) is not type(field) or bad == -1
        ]
    for other in others:
        body = bytes((kind,)) + encode_fields(other)
        try:
            decoded = decode(body)
        except ProtocolError:
            continue
        assert encode(decoded) == body, f"{other} was taken for {decoded}"


@pytest.mark.parametrize("port", [-1, 65_536, True])
def test_a_port_that_is_none(port: object):
    kind, _ = shape_of(Join(HOME))
    with pytest.raises(ProtocolError, match="no address"):
        decode(bytes((kind,)) + encode_fields((("host", port),)))


def test_a_kind_that_nobody_knows():
    with pytest.raises(ProtocolError, match="no message of kind 99"):
        decode(bytes((99,)) + encode_fields(()))
