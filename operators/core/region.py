"""A group of operators that progress tracking and pictures treat as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")
U = TypeVar("U")


def region(stream: Stream[T], body: Callable[[Stream[T]], Stream[U]], *, name: str = "region") -> Stream[U]:
    """Apply `body` to this stream within a nested scope that has the same times.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def clean(words):
    ...     return words.map(str.strip).filter(len)
    >>> example(lambda scope: to_stream(scope, [" a", " "]).region(clean, name="clean").extract()).rows()
    ['a']
    """
    with stream.scope.region(name) as inner:
        return body(stream.enter(inner)).leave()
