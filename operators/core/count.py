"""How many records there are at each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from framework.dataflow.pact import Fixed
from framework.wire.container import Container

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


def count(stream: Stream[T], *, name: str = "count") -> Stream[int]:
    """Send the number of records on all workers together, once for each time at which there are any.

    >>> from framework.launch.execute import example
    >>> from operators.input.iterator_source import iterator_source
    >>> example(lambda scope: iterator_source(scope, [(0, "ab"), (7, "c")]).count().extract()).by_time()
    {0: [2], 7: [1]}
    """
    here = stream.accumulate(_count, initial=0, name=name)
    return here.accumulate(_add, initial=0, pact=Fixed(_first_worker), name=f"{name}_total")


def _count(total: int, container: Container) -> int:
    return total + len(container)


def _add(total: int, counts: list[int]) -> int:
    return total + sum(counts)


def _first_worker(_: int) -> int:
    return 0
