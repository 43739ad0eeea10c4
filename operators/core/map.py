"""One record in, one record out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from framework.dataflow.handle import InputHandle, OutputHandle
from framework.error_context import attach_last_record

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")
U = TypeVar("U")


def map(stream: Stream[T], function: Callable[[T], U], *, name: str = "map") -> Stream[U]:
    """Replace each record by `function(record)`.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, ["a", "b"]).map(str.upper).extract()).rows()
    ['A', 'B']
    """

    def logic(input: InputHandle, output: OutputHandle) -> None:
        for capability, rows in input:
            left = iter(rows)
            try:
                results = [function(row) for row in left]
            except Exception as error:
                attach_last_record(error, rows, left)
                raise
            output.session(capability).give_container(results)

    return stream.unary(logic, name=name)
