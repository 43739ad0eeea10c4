"""Out of a nested scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


def leave(stream: Stream[T]) -> Stream[T]:
    """Bring this stream out into the scope around its own.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def build(scope):
    ...     with scope.region("shout") as inner:
    ...         return to_stream(scope, ["a"]).enter(inner).map(str.upper).leave().extract()
    >>> example(build).rows()
    ['A']

    A record at `Product(t, round)` of an iterative scope leaves at `t`.
    """
    return type(stream)(stream.scope.leave(stream.outlet))
