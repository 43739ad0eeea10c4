"""Into a nested scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from framework.dataflow.scope import Scope

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


def enter(stream: Stream[T], scope: Scope) -> Stream[T]:
    """Bring this stream into `scope`, which must be nested in its own.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def build(scope):
    ...     with scope.iterative() as inner:
    ...         return to_stream(scope, ["a"]).enter(inner).inspect_time(print).leave().extract()
    >>> example(build).by_time()
    (0, 0) a
    {0: ['a']}

    In an iterative scope a record at `t` is at `Product(t, 0)`; in a region it stays at `t`.
    """
    return type(stream)(scope.enter(stream.outlet))
