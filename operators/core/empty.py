"""A stream without records."""

from __future__ import annotations

from typing import Any

from framework.dataflow.scope import Scope
from operators.stream import Stream


def empty(scope: Scope, *, name: str = "empty") -> Stream[Any]:
    """Make a stream that is complete from the start.

    >>> from framework.launch.execute import example
    >>> example(lambda scope: empty(scope).extract()).rows()
    []
    """
    builder = scope.operator(name)
    _, outlet = builder.output()
    builder.build(lambda _: lambda: None, notify=False)
    return Stream(outlet)
