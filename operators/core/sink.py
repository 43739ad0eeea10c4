"""The end of a stream."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from framework.dataflow.handle import InputHandle
from framework.dataflow.pact import Pact, Pipeline

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


def sink(
    stream: Stream[T], logic: Callable[[InputHandle], None], *, pact: Pact | None = None, name: str = "sink"
) -> None:
    """Let `logic(input)` have what the stream carries; nothing comes out.

    >>> def show(input):
    ...     for capability, rows in input:
    ...         print(capability.time, rows)
    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, ["a", "b"]).sink(show))
    0 ['a', 'b']

    The logic runs when containers arrive and when `input.frontier` changes.
    """
    builder = stream.scope.operator(name)
    input = builder.input(stream.outlet, pact or Pipeline())
    builder.build(lambda _: partial(logic, input))
