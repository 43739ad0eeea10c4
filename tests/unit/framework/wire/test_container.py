"""Kinds of containers: rows are kind 0, others can be added, unknown ones are refused."""

from __future__ import annotations

from collections import deque

import pytest

from framework.errors import ProtocolError
from framework.wire import container
from framework.wire.container import (
    Container,
    Kind,
    decode_container,
    encode_container,
    register_kind,
    split_container,
    take_joined,
)


class Numbers:
    """A container of another kind: small integers as bytes."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets

    def __len__(self) -> int:
        return len(self.octets)


def test_rows_are_kind_zero() -> None:
    number, [octets] = encode_container([("a", 1)])
    assert number == 0
    assert decode_container(0, octets) == [("a", 1)]
    assert split_container([1, 2, 3]) == ([1], [2, 3])


def test_another_kind_travels_by_its_own_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "_by_number", dict(container._by_number))
    monkeypatch.setattr(container, "_by_type", dict(container._by_type))
    register_kind(
        Kind(
            7,
            Numbers,
            lambda value, where: [value.octets],
            lambda buffer: Numbers(bytes(buffer)),
            lambda value: (Numbers(value.octets[:1]), Numbers(value.octets[1:])),
            lambda values: Numbers(b"".join(value.octets for value in values)),
            lambda one, other: one.octets[:1] == other.octets[:1],
            len,
            small=4,
            weight=len,
            allocate=lambda size: memoryview(bytearray(size)),
        )
    )
    assert encode_container(Numbers(b"\x01\x02")) == (7, [b"\x01\x02"])
    decoded = decode_container(7, memoryview(b"\x01\x02"))
    assert isinstance(decoded, Numbers)
    assert decoded.octets == b"\x01\x02"
    assert [len(half) for half in split_container(Numbers(b"abc"))] == [1, 2]
    waiting = [(0, b"ab"), (0, b"a"), (0, b"ax"), (0, b"b"), (0, b"c"), (1, b"b"), (1, b"bbbb"), (1, b"b")]
    queue = deque[tuple[int, Container]]((time, Numbers(octets)) for time, octets in waiting)
    taken = []
    while queue:
        time, first = queue.popleft()
        joined = take_joined(queue, time, first)
        assert isinstance(joined, Numbers)
        taken.append((time, joined.octets))
    assert taken == [(0, b"abaax"), (0, b"b"), (0, b"c"), (1, b"b"), (1, b"bbbb"), (1, b"b")]


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ProtocolError, match="kind 200"):
        decode_container(200, b"")
