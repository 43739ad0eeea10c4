"""One stream as two."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from framework.dataflow.pact import Pipeline

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


class Branches(NamedTuple, Generic[T]):
    """The two streams that one was split into."""

    rejected: Stream[T]
    accepted: Stream[T]


def branch(stream: Stream[T], predicate: Callable[[Any, T], object], *, name: str = "branch") -> Branches[T]:
    """Split in two: the records for which `predicate(time, record)` is false, `rejected`, and the others, `accepted`.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def build(scope):
    ...     short, long = to_stream(scope, ["a", "abc", "b"]).branch(lambda time, word: len(word) > 2)
    ...     return short.extract(), long.extract()
    >>> [half.rows() for half in example(build)]
    [['a', 'b'], ['abc']]
    """
    builder = stream.scope.operator(name)
    input = builder.input(stream.outlet, Pipeline())
    (rejected, rejects), (accepted, accepts) = builder.output(), builder.output()

    def logic() -> None:
        for capability, rows in input:
            time = capability.time
            halves: tuple[list[T], list[T]] = [], []
            for row in rows:
                halves[bool(predicate(time, row))].append(row)
            rejected.session(capability).give_container(halves[0])
            accepted.session(capability).give_container(halves[1])

    builder.build(lambda _: logic, notify=False)
    return Branches(type(stream)(rejects), type(stream)(accepts))


def branch_when(stream: Stream[T], predicate: Callable[[Any], object], *, name: str = "branch_when") -> Branches[T]:
    """Split in two by time: the records at times for which `predicate(time)` is false, and the others.

    >>> from framework.launch.execute import example
    >>> from operators.input.iterator_source import iterator_source
    >>> days = [(0, ["a"]), (1, ["b"]), (2, ["c"])]
    >>> def build(scope):
    ...     early, late = iterator_source(scope, days).branch_when(lambda time: time > 0)
    ...     return early.extract(), late.extract()
    >>> [half.rows() for half in example(build)]
    [['a'], ['b', 'c']]
    """
    builder = stream.scope.operator(name)
    input = builder.input(stream.outlet, Pipeline())
    (rejected, rejects), (accepted, accepts) = builder.output(), builder.output()

    def logic() -> None:
        for capability, container in input:
            output = accepted if predicate(capability.time) else rejected
            output.session(capability).give_container(container)

    builder.build(lambda _: logic, notify=False)
    return Branches(type(stream)(rejects), type(stream)(accepts))
