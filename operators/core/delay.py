"""Records at a later time than they came at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from framework.dataflow.pact import Pipeline
from framework.dataflow.stash import Stash
from framework.progress.order import Time

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")

_Split = Callable[[Time, Any], dict[Time, Any]]


def delay(stream: Stream[T], function: Callable[[Any, T], Time], *, name: str = "delay") -> Stream[T]:
    """Move each record to the time `function(time, record)`, and send it when that time is complete at the input.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, [3, 1, 2]).delay(lambda time, n: time + n).extract()).by_time()
    {1: [1], 2: [2], 3: [3]}

    A time before the record's own is an error, `TimeNotCovered`.
    """

    def split(time: Time, rows: list[T]) -> dict[Time, Any]:
        parts: dict[Time, list[T]] = {}
        for row in rows:
            parts.setdefault(function(time, row), []).append(row)
        return parts

    return _delay(stream, split, name)


def delay_batch(stream: Stream[T], function: Callable[[Any], Time], *, name: str = "delay_batch") -> Stream[T]:
    """Move whole containers to the time `function(time)`, and send them when that time is complete at the input.

    >>> from framework.launch.execute import example
    >>> from operators.input.iterator_source import iterator_source
    >>> def next_ten(time):
    ...     return time // 10 * 10 + 10
    >>> source = [(1, ["a"]), (9, ["b"]), (10, ["c"])]
    >>> example(lambda scope: iterator_source(scope, source).delay_batch(next_ten).extract()).by_time()
    {10: ['a', 'b'], 20: ['c']}

    A time before the container's own is an error, `TimeNotCovered`.
    """
    return _delay(stream, lambda time, container: {function(time): container}, name)


def _delay(stream: Stream[T], split: _Split, name: str) -> Stream[T]:
    builder = stream.scope.operator(name)
    input = builder.input(stream.outlet, Pipeline())
    output, outlet = builder.output()
    stash, check_time = Stash[Any](), stream.scope.domain.check_time

    def logic() -> None:
        for capability, container in input:
            for later, part in split(capability.time, container).items():
                check_time(later)
                stash.add(capability.delayed(later), part)
        for complete, parts in stash.complete(input):
            session = output.session(complete)
            for part in parts:
                session.give_container(part)

    builder.build(lambda _: logic)
    builder.operator.on_shut_down.append(stash.clear)
    return type(stream)(outlet)
