"""A function that may reject records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from framework.dataflow.pact import Pipeline

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")
U = TypeVar("U")


def attempt(
    stream: Stream[T], function: Callable[[T], U], *, name: str = "attempt"
) -> tuple[Stream[U], Stream[tuple[T, str]]]:
    """Split in two: `function(record)` of each record, and the records it raised for, each with what it said.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def build(scope):
    ...     numbers, rejected = to_stream(scope, ["1", "two", "3"]).attempt(int)
    ...     return numbers.extract(), rejected.extract()
    >>> numbers, rejected = example(build)
    >>> numbers.rows()
    [1, 3]
    >>> rejected.rows()
    [('two', "ValueError: invalid literal for int() with base 10: 'two'")]

    A job that lets the second stream go out has a dead-letter output; with `map` instead, the first such record ends
    the job.
    """
    builder = stream.scope.operator(name)
    input = builder.input(stream.outlet, Pipeline())
    (results, accepted), (rejects, rejected) = builder.output(), builder.output()

    def logic() -> None:
        for capability, rows in input:
            done: list[U] = []
            failed: list[tuple[Any, str]] = []
            for row in rows:
                try:
                    done.append(function(row))
                except Exception as error:
                    failed.append((row, f"{type(error).__name__}: {error}"))
            results.session(capability).give_container(done)
            rejects.session(capability).give_container(failed)

    builder.build(lambda _: logic, notify=False)
    return type(stream)(accepted), type(stream)(rejected)  # type: ignore[return-value]
