"""One record in, any number of records out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from framework.dataflow.handle import InputHandle, OutputHandle
from operators.error_context import attach_last_record

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")
U = TypeVar("U")


def flat_map(stream: Stream[T], function: Callable[[T], Iterable[U]], *, name: str = "flat_map") -> Stream[U]:
    """Replace each record by the records in `function(record)`.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, ["to be", "or not"]).flat_map(str.split).extract()).rows()
    ['to', 'be', 'or', 'not']
    """

    def logic(input: InputHandle, output: OutputHandle) -> None:
        for capability, rows in input:
            results: list[U] = []
            left = iter(rows)
            try:
                for row in left:
                    results += function(row)
            except Exception as error:
                attach_last_record(error, rows, left)
                raise
            output.session(capability).give_container(results)

    return stream.unary(logic, name=name)
