"""Send records to the owners of their bins, and keep nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from operators.stateful.per_bin_logic import BinnedLogic, options_per_bin
from operators.stateful.placement import place
from routing.bins import Bins
from routing.commands import Control
from routing.options import BinOptions
from routing.placement import Key

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


def distribute(
    stream: Stream[T],
    *,
    key: Key,
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "distribute",
) -> Stream[T]:
    """Bring each record to the worker that owns its key's bin at its time, in the order of times.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, [1, 2]).distribute(key=int).extract()).rows()
    [1, 2]
    """
    return place([(stream, key)], _Stateless, control=control, options=options_per_bin(bins, name), name=name)


class _Stateless(BinnedLogic):
    """Passes records on."""

    def __init__(self) -> None:
        super().__init__(_nothing, _nothing_due, keys=[], initial=dict, bins=Bins(1), name="distribute")

    def apply(self, port: int, time: int, rows: list[Any]) -> list[Any]:
        """Pass them on."""
        return rows


def _nothing(port: int, time: int, rows: list[Any], bin: Any) -> list[Any]:
    raise AssertionError


def _nothing_due(time: int, items: list[Any], bin: Any) -> list[Any]:
    raise AssertionError
