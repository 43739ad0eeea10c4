"""Several streams as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from framework.dataflow.pact import Pipeline
from framework.dataflow.scope import Outlet, Scope
from framework.errors import GraphError

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


def concat(stream: Stream[T], *others: Stream[T], name: str = "concat") -> Stream[T]:
    """Put this stream and the others together; records keep their times and come in no particular order.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, [1]).concat(to_stream(scope, [2])).extract()).rows()
    [1, 2]
    """
    for other in others:
        if not isinstance(other, type(stream)):
            raise GraphError(
                f"operator {name!r} cannot put rows and columns together; turn the columns into rows with "
                f"`.to_rows()`, or the rows into columns with `.to_columns(schema)`"
            )
    return type(stream)(merge(stream.scope, [stream.outlet, *(other.outlet for other in others)], name))


def concatenate(scope: Scope, streams: Iterable[Stream[T]], *, name: str = "concatenate") -> Stream[T]:
    """Put all `streams` of `scope` together, as `Stream.concat` does; there may be none.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: concatenate(scope, [to_stream(scope, [n]) for n in range(3)]).extract()).rows()
    [0, 1, 2]
    """
    from operators.stream import Stream

    return Stream(merge(scope, [stream.outlet for stream in streams], name))


def merge(scope: Scope, outlets: Sequence[Outlet], name: str) -> Outlet:
    """An outlet with all that comes out of `outlets`."""
    builder = scope.operator(name)
    inputs = [builder.input(outlet, Pipeline()) for outlet in outlets]
    output, merged = builder.output()

    def logic() -> None:
        for input in inputs:
            for capability, container in input:
                output.session(capability).give_container(container)

    builder.build(lambda _: logic, notify=False)
    return merged
