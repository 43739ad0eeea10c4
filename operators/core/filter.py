"""Keep some records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from framework.dataflow.handle import InputHandle, OutputHandle
from framework.error_context import attach_last_record

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


def filter(stream: Stream[T], predicate: Callable[[T], object], *, name: str = "filter") -> Stream[T]:
    """Keep the records for which `predicate(record)` is true.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, range(6)).filter(lambda n: n % 2 == 0).extract()).rows()
    [0, 2, 4]
    """

    def logic(input: InputHandle, output: OutputHandle) -> None:
        for capability, rows in input:
            left = iter(rows)
            try:
                kept = [row for row in left if predicate(row)]
            except Exception as error:
                attach_last_record(error, rows, left)
                raise
            output.session(capability).give_container(kept)

    return stream.unary(logic, name=name)
