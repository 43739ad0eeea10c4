"""One record in, any number of records out; or many records in, any number out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from framework.dataflow.handle import InputHandle, OutputHandle
from framework.error_context import attach_last_record

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


def flat_map_batch(
    stream: Stream[T], function: Callable[[list[T]], list[U]], *, name: str = "flat_map_batch"
) -> Stream[U]:
    """Replace the records of each container by those in the list `function(container)`, which must not change it.

    For what is quicker, or only possible, on many records at once. How many there are is nothing to rely on.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def looked_up(words):
    ...     found = {"tea": 3, "milk": 4}  # one query for all of them
    ...     return [(word, found[word]) for word in words if word in found]
    >>> example(lambda scope: to_stream(scope, ["tea", "ale", "tea"]).flat_map_batch(looked_up).extract()).rows()
    [('tea', 3), ('tea', 3)]
    """

    def logic(input: InputHandle, output: OutputHandle) -> None:
        for capability, rows in input:
            results = function(rows)
            if not isinstance(results, list):
                raise TypeError(f"operator {name!r} expects a list of records, and its function returned {results!r}")
            output.session(capability).give_container(results)

    return stream.unary(logic, name=name)
