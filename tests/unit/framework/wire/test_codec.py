"""The codec on examples: what keeps its type, what is refused, and how the refusal reads."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgpack
import pytest

from framework.errors import ConfigError, ProtocolError, UnencodableRecord
from framework.wire import codec
from framework.wire.codec import SLICE_ROWS, decode_rows, decode_value, encode_rows, encode_value, transpose


class Point(NamedTuple):
    x: int
    y: tuple[int, ...]


@dataclass(frozen=True)
class Visit:
    page: str
    at: Point


class Colour(Enum):
    RED = "r"


class Level(IntEnum):
    LOW = 1


class Opaque:
    pass


codec.register(Point)
codec.register(Visit)
codec.register(Colour)
codec.register(Level)


def same(left: Any, right: Any) -> bool:
    """Equal in value and in type, at every depth; NaN equals NaN, and 0.0 does not equal -0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, set | frozenset):
        return {(type(item), item) for item in left} == {(type(item), item) for item in right}
    if isinstance(left, float):
        return repr(left) == repr(right)
    if isinstance(left, Decimal):
        return str(left) == str(right)
    if isinstance(left, datetime | time):
        return repr(left) == repr(right)
    return bool(left == right)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1,
        -(2**63),
        2**64 - 1,
        2**64,
        -(2**63) - 1,
        10**400,
        -(10**400),
        1.5,
        -0.0,
        math.nan,
        math.inf,
        "",
        "é\ud800x",
        ("\udfff", ["\ud800"]),
        b"\x00\xff",
        [],
        (),
        ((), [()], {(): ()}),
        {(1, ("a", None)): [1, (2, [3])], "k": {1: 2}, None: 0, b"": 1, 1.5: 2},
        {1, "a", (2, 3)},
        frozenset({frozenset({1}), ()}),
        datetime(2024, 2, 29, 23, 59, 59, 999999),
        datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, tzinfo=timezone(timedelta(hours=-5, seconds=3), "odd")),
        date(2024, 2, 29),
        time(1, 2, 3, 4, fold=1, tzinfo=UTC),
        time(),
        timedelta(days=-1, microseconds=1),
        timedelta.max,
        UTC,
        Decimal("-0.00"),
        Decimal("NaN"),
        Decimal("sNaN12"),
        Decimal("1E+999999"),
        UUID(int=2**128 - 1),
        complex(-0.0, math.inf),
        Point(1, (2, 3)),
        Visit("a", Point(1, ())),
        [Colour.RED, Level.LOW, 1],
    ],
)
def test_a_value_comes_back_with_its_type(value: Any) -> None:
    assert same(decode_value(encode_value(value)), value)
    assert same(decode_rows(encode_rows([value, value])), [value, value])
    assert same(decode_rows(encode_rows([("k", value)] * 3)), [("k", value)] * 3)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [()],
        [(), ()],
        [("a", 1)],
        [("a", 1), ("b",)],
        [("a", 1), ["b", 2]],
        [("a", 1), Point(1, ())],
        [("a", (1, 2)), ("b", (3, 4))],
        [("a", (1, 2)), ("b", (3,))],
        [(("a", ((1,),)),), (("b", ((2,),)),)],
        [((((((((((1,),),),),),),),),),)] * 2,
        [(True, 1, 1.0), (1, True, 1)],
        ["plain", "strings"],
    ],
)
def test_rows_come_back_with_their_types(rows: list[Any]) -> None:
    assert same(decode_rows(encode_rows(rows)), rows)


def test_rows_of_equal_tuples_travel_as_columns() -> None:
    rows = [("a", (1, 2.0)), ("b", (3, 4.0))]
    assert msgpack.unpackb(encode_rows(rows)) == [[0, [0, 0]], [["a", "b"], [1, 3], [2.0, 4.0]]]


@pytest.mark.parametrize("value", [Opaque(), OrderedDict(a=1), type("Text", (str,), {})("x"), print, ("a", [Opaque()])])
def test_an_unknown_type_is_refused(value: Any) -> None:
    with pytest.raises(UnencodableRecord):
        encode_rows([value])


def test_the_refusal_names_sender_type_and_remedy() -> None:
    with pytest.raises(UnencodableRecord) as caught:
        encode_rows([("a", Opaque())], "operator 'parse'")
    assert str(caught.value) == (
        "operator 'parse' sent a Opaque to another worker, which msgpack cannot encode; "
        "send a tuple, dict, str, bytes, int, float, bool, None, or a dataclass, or register a codec with "
        "`codec.register`"
    )


def test_a_failing_encode_function_is_named() -> None:
    class Picky:
        pass

    codec.register(Picky, "picky", lambda value: 1 / 0, lambda value: value)
    with pytest.raises(UnencodableRecord, match=r"Picky.*its codec raised ZeroDivisionError"):
        encode_value(Picky())


def test_cycles_and_deep_nesting_are_refused_on_the_way_out() -> None:
    through_list: list[Any] = []
    through_list.append(through_list)
    through_tuple: list[Any] = []
    through_tuple.append((through_tuple,))
    deep: Any = 0
    for _ in range(codec.EXTENSION_DEPTH_MAX + 1):
        deep = (deep,)
    for value in (through_list, through_tuple, deep):
        with pytest.raises(UnencodableRecord, match="refers to itself, is nested too deeply"):
            encode_value(value)


def test_tuples_nest_up_to_the_limit() -> None:
    deep: Any = 0
    for _ in range(codec.EXTENSION_DEPTH_MAX):
        deep = (deep,)
    assert decode_value(encode_value(deep)) == deep


def test_surrogates_at_every_level_cost_no_more_than_twice() -> None:
    calls = 0

    class Counted:
        pass

    def encode(value: Counted) -> str:
        nonlocal calls
        calls += 1
        return "\ud800"

    codec.register(Counted, "counted", encode, lambda value: value)
    deep: Any = Counted()
    for _ in range(codec.EXTENSION_DEPTH_MAX - 1):
        deep = (deep, "\ud800")
    encode_value([deep, "\ud800"])
    assert calls == 2


def nested_extensions(depth: int) -> bytes:
    body = b"\x90"
    for _ in range(depth):
        body = msgpack.packb([msgpack.ExtType(1, body)])
    return body


def nested_shape(depth: int) -> bytes:
    return b"\x92" + b"\x91" * depth + b"\x00" + b"\x91\x90"


@pytest.mark.parametrize(
    "buffer",
    [
        b"",
        b"\xc1",
        b"\x00\x00",
        b"\x91" * 100_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xa1\xff",
        b"\x81\x90\x00",
        msgpack.packb({1: msgpack.ExtType(99, b"")}),
        msgpack.packb(msgpack.ExtType(1, b"\xa1a")),
        msgpack.packb(msgpack.ExtType(3, b"\x91\x90")),
        msgpack.packb(msgpack.ExtType(5, b"\x90")),
        msgpack.packb(msgpack.ExtType(11, b"\xa1x")),
        msgpack.packb(msgpack.ExtType(10, b"\xaf../../etc/hosts")),
        msgpack.packb(msgpack.ExtType(127, b"\x92\xa7unknown\x00")),
        msgpack.packb(msgpack.ExtType(127, b"\x92\x90\x00")),
        msgpack.packb(msgpack.ExtType(127, b"\x92" + encode_value(10**5000) + b"\x00")),
        msgpack.packb(msgpack.ExtType(127, b"\x00")),
        msgpack.packb(msgpack.ExtType(127, msgpack.packb(["Point", [1, 2, 3]]))),
        msgpack.packb(msgpack.ExtType(127, msgpack.packb(["Colour", "BLUE"]))),
        nested_extensions(codec.EXTENSION_DEPTH_MAX + 1),
        nested_extensions(2_000),
    ],
)
def test_a_malformed_value_is_a_protocol_error(buffer: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_value(buffer)
    with pytest.raises(ProtocolError):
        decode_rows(buffer)


@pytest.mark.parametrize(
    "document",
    [
        0,
        [],
        [0],
        [0, []],
        [0, 0],
        [0, [[], []]],
        [0, [[], None]],
        [0, ["text"]],
        [1, [[]]],
        [False, [[]]],
        [[], []],
        [[0, 0], [[1], []]],
        [[0, 0], [[1]]],
        [[0, [0, 0]], [[1], [2]]],
        [[0, "x"], [[1], [2]]],
    ],
)
def test_columns_that_do_not_fit_their_shape_are_refused(document: Any) -> None:
    with pytest.raises(ProtocolError):
        decode_rows(msgpack.packb(document))


def test_a_deep_shape_is_refused() -> None:
    assert decode_rows(nested_shape(codec.COLUMN_DEPTH_MAX)) == []
    for depth in (codec.COLUMN_DEPTH_MAX + 1, 900):
        with pytest.raises(ProtocolError):
            decode_rows(nested_shape(depth))


def test_what_cannot_be_registered_says_why() -> None:
    with pytest.raises(ConfigError, match="can be sent as it is"):
        codec.register(tuple)
    with pytest.raises(ConfigError, match="not a NamedTuple"):
        codec.register(Opaque)
    with pytest.raises(ConfigError, match="both"):
        codec.register(Opaque, encode=str)
    with pytest.raises(ConfigError, match=r"'Point' stands for .*Point already; give .*Opaque another"):
        codec.register(Opaque, "Point", repr, eval)


@pytest.mark.parametrize(
    "value",
    [
        Counter("tea"),
        Counter({("a", 1): 2.5}),
        deque([1, (2,)], maxlen=5),
        deque(),
        defaultdict(list, {"a": [1]}),
        defaultdict(None, {1: 2}),
        defaultdict(Counter, {"a": Counter("x")}),
    ],
)
def test_collections_come_back(value: Any) -> None:
    arrived = decode_value(encode_value(value))
    assert type(arrived) is type(value)
    assert repr(arrived) == repr(value)
    assert getattr(arrived, "default_factory", None) is getattr(value, "default_factory", None)
    assert getattr(arrived, "maxlen", None) == getattr(value, "maxlen", None)


def test_a_defaultdict_of_a_function_is_refused() -> None:
    with pytest.raises(UnencodableRecord, match=r"defaultdict .*makes its values; of defaultdicts, those of int"):
        encode_value(defaultdict(lambda: 0))


@pytest.mark.parametrize(
    ("code", "plain"),
    [(14, []), (15, [1, 2]), (15, [[], -1]), (15, [[]]), (16, ["exec", {}]), (16, ["int", []]), (16, [])],
)
def test_nonsense_for_a_collection_is_a_protocol_error(code: int, plain: Any) -> None:
    buffer = msgpack.packb(msgpack.ExtType(code, msgpack.packb(plain)))
    with pytest.raises(ProtocolError):
        decode_value(buffer)


class Drink(StrEnum):
    """An enumeration whose members are strings, and whose class therefore has a `__getitem__` of its own."""

    TEA = "tea"


def test_an_enumeration_of_strings_arrives_as_it_was() -> None:
    codec.register(Drink, "tests.Drink")
    [arrived] = decode_rows(encode_rows([Drink.TEA]))
    assert arrived is Drink.TEA


@pytest.mark.parametrize("count", [0, 1, SLICE_ROWS, SLICE_ROWS + 1, 3 * SLICE_ROWS])
def test_columns_are_the_same_however_many_slices_it_takes(count: int) -> None:
    columns = [[f"w{number}" for number in range(count)], list(range(count))]
    assert transpose(list(zip(*columns, strict=True))) == (columns if count else [])


@pytest.mark.parametrize("odd", [0, 1, SLICE_ROWS - 1, SLICE_ROWS, 2 * SLICE_ROWS - 1])
@pytest.mark.parametrize("row", [(), (1,), (1, 2, 3)])
def test_rows_that_differ_in_length_are_refused(odd: int, row: tuple[int, ...]) -> None:
    rows: list[tuple[int, ...]] = [(1, 2)] * (2 * SLICE_ROWS)
    rows[odd] = row
    with pytest.raises(ValueError, match="zip"):
        transpose(rows)


def test_slices_that_differ_from_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        transpose([(1, 2)] * SLICE_ROWS + [(1, 2, 3)] * SLICE_ROWS)
