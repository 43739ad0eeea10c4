"""Any number of streams as one, even none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from framework.dataflow.scope import Scope
from operators.core.concat import merge
from operators.stream import Stream

T = TypeVar("T")


def concatenate(scope: Scope, streams: Iterable[Stream[T]], *, name: str = "concatenate") -> Stream[T]:
    """Put all `streams` of one scope together, as `Stream.concat` does.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: concatenate(scope, [to_stream(scope, [n]) for n in range(3)]).extract()).rows()
    [0, 1, 2]
    """
    return Stream(merge(scope, [stream.outlet for stream in streams], name))
