"""One stream as several."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from framework.dataflow.pact import Pipeline
from framework.errors import GraphError
from operators.errors import RouteOutOfRange

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


def partition(stream: Stream[T], count: int, route: Callable[[T], int], *, name: str = "partition") -> list[Stream[T]]:
    """Split into `count` streams; `route(record)` tells which one a record goes to, from 0 to `count - 1`.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def build(scope):
    ...     even, odd = to_stream(scope, range(5)).partition(2, lambda n: n % 2)
    ...     return even.extract(), odd.extract()
    >>> [part.rows() for part in example(build)]
    [[0, 2, 4], [1, 3]]
    """
    if count < 1:
        raise GraphError(f"operator {name!r} splits a stream into at least 1, not into {count}")
    builder = stream.scope.operator(name)
    input = builder.input(stream.outlet, Pipeline())
    ports = [builder.output() for _ in range(count)]

    def logic() -> None:
        for capability, rows in input:
            parts: list[list[T]] = [[] for _ in ports]
            indices = [route(row) for row in rows]
            _check(indices, rows, count, name)
            for index, row in zip(indices, rows, strict=True):
                parts[index].append(row)
            for (output, _), part in zip(ports, parts, strict=True):
                if part:
                    output.session(capability).give_container(part)

    builder.build(lambda _: logic, notify=False)
    return [type(stream)(outlet) for _, outlet in ports]


def _check(indices: list[int], rows: list[Any], count: int, name: str) -> None:
    """Raise unless each index names an output; Python itself would take -1 for the last one."""
    valid = range(count)
    for index in set(indices):
        if index not in valid:
            row = rows[indices.index(index)]
            raise RouteOutOfRange(
                f"operator {name!r} has outputs 0 to {count - 1}, and its route gave {index!r} for {row!r}"
            )
