"""A loop within each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from operators.core.connect_loop import Loop

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")
U = TypeVar("U")


def iterate(
    stream: Stream[T], body: Callable[[Stream[T]], tuple[Stream[T], Stream[U]]], *, name: str = "iterate"
) -> Stream[U]:
    """Apply `body` again and again, in a nested scope whose times count the rounds.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def collatz(numbers):
    ...     done, rest = numbers.branch(lambda time, number: number > 1)
    ...     again = rest.map(lambda number: number // 2 if number % 2 == 0 else 3 * number + 1)
    ...     return again, done
    >>> example(lambda scope: to_stream(scope, [6, 7]).iterate(collatz).extract()).rows()
    [1, 1]

    `body(variable)` receives the records of this stream and those that come round, and returns two streams: what goes
    round again, and the result, which leaves at the time that it came in at. The loop ends when nothing goes round.
    """
    with stream.scope.iterative(name) as inner:
        loop = Loop(inner, None, "feedback")
        again, result = body(stream.enter(inner).concat(type(stream)(loop.outlet)))
        again.connect_loop(loop)
        return result.leave()
