"""What comes out of windows."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from framework.wire import codec

if TYPE_CHECKING:
    from operators.stream import Stream

K = TypeVar("K")
T = TypeVar("T")
R = TypeVar("R")


class Window(NamedTuple):
    """The event times from `start` to just before `end`."""

    start: int
    end: int


class Pane(Enum):
    """When a result was given."""

    EARLY = "early"
    """Before the window closed: more may come."""
    CLOSED = "closed"
    """When the window closed, once per window; right, unless late records follow."""
    CORRECTED = "corrected"
    """After late records, within the allowed lateness."""


class WindowResult(NamedTuple, Generic[K, R]):
    """The value of a key's window. It replaces the earlier results of that key whose windows lie within this one."""

    key: K
    window: Window
    value: R
    pane: Pane


class Late(NamedTuple, Generic[T]):
    """A record that came too late for some of its windows: they are complete, and do not contain it."""

    record: T
    windows: tuple[Window, ...]


class Windowed(NamedTuple, Generic[K, T, R]):
    """The two streams that come out of windows."""

    results: Stream[WindowResult[K, R]]
    late: Stream[Late[T]]


for _kind in (Window, Pane, WindowResult, Late):
    codec.register(_kind, f"operators.stateful.windows.{_kind.__name__}")
