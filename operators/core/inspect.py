"""Look at what passes, and let it pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from framework.dataflow.handle import InputHandle, OutputHandle

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


def inspect(stream: Stream[T], function: Callable[[T], object], *, name: str = "inspect") -> Stream[T]:
    """Call `function(record)` for each record that passes.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> _ = example(lambda scope: to_stream(scope, ["a", "b"]).inspect(print).extract())
    a
    b
    """

    def logic(input: InputHandle, output: OutputHandle) -> None:
        for capability, rows in input:
            for row in rows:
                function(row)
            output.session(capability).give_container(rows)

    return _observed(stream.unary(logic, name=name))


def inspect_time(stream: Stream[T], function: Callable[[Any, T], object], *, name: str = "inspect_time") -> Stream[T]:
    """Call `function(time, record)` for each record that passes.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> _ = example(lambda scope: to_stream(scope, ["a", "b"]).inspect_time(print).extract())
    0 a
    0 b
    """

    def logic(input: InputHandle, output: OutputHandle) -> None:
        for capability, rows in input:
            time = capability.time
            for row in rows:
                function(time, row)
            output.session(capability).give_container(rows)

    return _observed(stream.unary(logic, name=name))


def inspect_batch(
    stream: Stream[T], function: Callable[[Any, Any], object], *, name: str = "inspect_batch"
) -> Stream[T]:
    """Call `function(time, container)` for each container that passes; it must not change the container.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> _ = example(lambda scope: to_stream(scope, ["a", "b"]).inspect_batch(print).extract())
    0 ['a', 'b']
    """

    def logic(input: InputHandle, output: OutputHandle) -> None:
        for capability, container in input:
            function(capability.time, container)
            output.session(capability).give_container(container)

    return _observed(stream.unary(logic, name=name))


def _observed(stream: Stream[T]) -> Stream[T]:
    stream.scope.observe(stream.outlet)
    return stream
