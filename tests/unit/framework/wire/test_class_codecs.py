"""Dataclasses, named tuples and enums: they travel unregistered, as they were, and no class of Python's is made."""

from __future__ import annotations

import runpy
import sys
import threading
from collections import namedtuple
from dataclasses import InitVar, dataclass, field, make_dataclass
from enum import Enum, Flag, IntEnum, StrEnum, auto
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgpack
import pytest

from framework.errors import ConfigError, ProtocolError, UnencodableRecord
from framework.progress.summary import Local
from framework.wire import codec, extensions
from framework.wire.class_codecs import find
from framework.wire.codec import decode_rows, decode_value, encode_rows, encode_value
from framework.wire.extensions import REGISTERED


class Side(Enum):
    BUY = (1, "b")
    SELL = (2, "s")
    PURCHASE = BUY


class Level(IntEnum):
    LOW = 1


class Size(StrEnum):
    LARGE = auto()


class Rights(Flag):
    READ = auto()
    WRITE = auto()


class Point(NamedTuple):
    x: int
    y: tuple[int, ...] = ()


Old = namedtuple("Old", "left right")


@dataclass
class Item:
    name: str
    count: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Price:
    cents: int
    side: Side = Side.BUY


@dataclass(kw_only=True)
class Basket:
    items: list[Item] = field(default_factory=list)
    total: Price | None = None
    limit: ClassVar[int] = 3

    @cached_property
    def size(self) -> int:
        return len(self.items)

    @dataclass
    class Note:
        text: str


@dataclass
class Derived:
    """Runs code when it is made, and has a field that is no parameter: a copy is not made, but put together again."""

    words: list[str]
    times: InitVar[int] = 2
    made: int = field(init=False, default=0)
    length: int = field(init=False)

    def __post_init__(self, times: int) -> None:
        self.words = self.words * times
        self.length = len(self.words)
        self.made += 1


@dataclass
class Child(Item):
    parent: Item | None = None


class Undecorated(Item):
    pass


@dataclass
class Remembering:
    name: str

    def __post_init__(self) -> None:
        self.seen = [self.name]


@dataclass
class Dictionary(dict[str, int]):
    name: str


class Slotted:
    __slots__ = ("hidden",)


@dataclass
class Hiding(Slotted):
    name: str


@dataclass
class Unfinished:
    name: str
    result: int = field(init=False)


class Tagged(Point):
    pass


Renamed: Any = namedtuple("Another", "x")  # type: ignore[name-match]


def basket() -> Basket:
    made = Basket(items=[Item("tea", 2), Child("milk", parent=Item("cow"))], total=Price(3, Side.SELL))
    assert made.size == 2
    return made


@pytest.mark.parametrize(
    "value",
    [
        Item("tea"),
        Price(5),
        basket(),
        Basket.Note("nested class"),
        Derived(["a"]),
        Undecorated("b", 2),
        Child("c", 1, Item("d")),
        Point(1, (2, 3)),
        Old(1, [Point(1)]),
        Side.SELL,
        Side.PURCHASE,
        Level.LOW,
        Size.LARGE,
        Rights.READ | Rights.WRITE,
        Rights(0),
        {Price(1): {Side.BUY: [Item("x")]}, Point(1): (Level.LOW,)},
    ],
)
def test_values_of_a_modules_own_classes_come_back(value: Any) -> None:
    [arrived, _] = decode_rows(encode_rows([value, (value,)]))
    assert (arrived, type(arrived)) == (value, type(value))
    assert repr(arrived) == repr(value)


def test_a_member_arrives_as_itself() -> None:
    assert decode_value(encode_value(Side.PURCHASE)) is Side.BUY


def test_what_is_cached_is_left_behind() -> None:
    assert "size" not in vars(decode_value(encode_value(basket())))


def local_class() -> Any:
    @dataclass
    class Local:
        n: int

    return Local(1)


def another(cls: type) -> Any:
    value = Item("a")
    value.__class__ = type(cls.__name__, (cls,), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})
    return value


def with_attribute(value: Any) -> Any:
    value.extra = 1
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (local_class(), "sent a local_class.<locals>.Local .*it is defined in a function, where other workers"),
        (another(Item), "sent a Item .*module tests.* has no Item by which other workers could find it"),
        (Renamed(1), "sent a Another .* has no Another by which"),
        (make_dataclass("Made", ["x"])(1), r"sent a Made .*it is of module types, whose types have to be registered"),
        (Local(1), r"sent a Local .*it is of module framework\.progress\.summary, whose types have to be registered"),
        (Remembering("a"), "sent a Remembering .*'seen' is an attribute of it, and no field"),
        (with_attribute(Item("a")), "sent a Item .*'extra' is an attribute of it, and no field"),
        (with_attribute(Tagged(1)), "sent a Tagged .*'extra' is an attribute of it, and no item"),
        (Unfinished("a"), "sent a Unfinished .*has no attribute 'result'"),
        (Item(threading.Lock()), "sent a lock to another worker, which msgpack cannot encode; send"),  # type: ignore[arg-type]
        (Dictionary("a"), "sent a Dictionary to another worker, which msgpack cannot encode; send"),
        (Hiding("a"), "sent a Hiding to another worker, which msgpack cannot encode; send"),
    ],
)
def test_what_would_not_arrive_as_it_was_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(UnencodableRecord, match=reason):
        encode_value(value)


def received(name: Any, plain: Any) -> Any:
    return decode_value(msgpack.packb(msgpack.ExtType(REGISTERED, msgpack.packb([name, plain]))))


class Watched:
    """Made by nobody: each way to make one would be noticed."""

    def __new__(cls) -> Watched:
        raise AssertionError

    def __init__(self) -> None:
        raise AssertionError


HERE = __name__


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        (f"{HERE}:Watched", []),
        (f"{HERE}:nothing", []),
        (f"{HERE}:basket", []),
        (f"{HERE}:threading.Thread", [None]),
        (f"{HERE}:Basket.__init__", []),
        (f"{HERE}:Item.__class__", []),
        (f"{HERE}:Thread", [None]),
        (f"{HERE}:Price", [1]),
        (f"{HERE}:Price", {"cents": 1, "side": 2}),
        (f"{HERE}:Point", [1]),
        (f"{HERE}:Side", "MISSING"),
        (f"{HERE}:Side", ["BUY"]),
        (f"{HERE}:Rights", "READ"),
        (f"{HERE}:", []),
        ("builtins:list", []),
        ("inspect:Parameter", []),
        ("ssl:SSLContext", []),
        ("http:HTTPStatus", "OK"),
        ("framework.launch.config:Config", []),
        ("operators.broker.address:BrokerAddress", []),
        ("antigravity:Anything", []),
        ("", []),
        (7, []),
    ],
)
def test_a_peer_names_classes_in_vain_unless_the_program_defines_them(name: Any, plain: Any) -> None:
    with pytest.raises(ProtocolError):
        received(name, plain)


def test_no_module_is_imported_because_a_peer_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "named_by_a_peer.py").write_text("class Person(tuple):\n    _fields = ()\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ProtocolError, match="neither registered here nor defined in a module that is loaded"):
        received("named_by_a_peer:Person", [])
    assert "named_by_a_peer" not in sys.modules


APART = """
from dataclasses import dataclass
from enum import Enum

class Kind(Enum):
    ONE = 1

@dataclass(slots=True)
class Visit:
    page: str

    @dataclass
    class Inner:
        kind: Kind

class Plain:
    pass
"""


@pytest.fixture
def apart(tmp_path: Path) -> dict[str, Any]:
    """The globals of code that was run without a module, as a job's file is."""
    path = tmp_path / "apart.py"
    path.write_text(APART)
    return runpy.run_path(str(path), run_name="<apart.py>")


def test_classes_of_code_without_a_module_travel_once_it_is_said_where_they_are(apart: dict[str, Any]) -> None:
    visit = apart["Visit"]("home")
    with pytest.raises(UnencodableRecord, match=r"it is of module <apart\.py>, whose types have to be registered"):
        encode_value(visit)
    codec.look_in(apart)
    inner = apart["Visit"].Inner(apart["Kind"].ONE)
    assert decode_value(encode_value([visit, inner])) == [visit, inner]
    names = {name for name in extensions.registered() if name.startswith("<apart.py>")}
    assert names == {"<apart.py>:Kind", "<apart.py>:Visit", "<apart.py>:Visit.Inner"}


def test_the_class_that_a_name_stands_for_last_is_the_one_that_is_made() -> None:
    """As in a notebook, in which a cell is run again."""
    for _ in range(2):
        namespace: dict[str, Any] = {"__name__": "<cell>"}
        exec("from typing import NamedTuple\nclass Row(NamedTuple):\n    x: int\n", namespace)
        codec.look_in(namespace)
        assert type(decode_value(encode_value(namespace["Row"](1)))) is namespace["Row"]
        assert find("<cell>:Row") is namespace["Row"]


def test_a_class_of_a_function_travels_if_it_is_registered() -> None:
    @dataclass
    class Inside:
        n: int = field(init=False, default=3)

    codec.register(Inside, "tests.Inside")
    assert decode_value(encode_value(Inside())) == Inside()
    with pytest.raises(ConfigError, match="keeps nothing but its fields"):
        codec.register(Hiding)
