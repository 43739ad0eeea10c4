"""Records brought to other workers: by a number, by a key, or in equal slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.pact import Deal, Exchange
from operators.stateful.key_value import fixed_by

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


def exchange(stream: Stream[T], route: Callable[[T], int], *, name: str = "exchange") -> Stream[T]:
    """Bring each record to the worker that `route(record)`, modulo the number of workers, names.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, [4, 7]).exchange(lambda number: number).extract()).rows()
    [4, 7]

    `route` must give the same number on every worker. Python's own `hash` of a string does not; see `exchange_by`. When
    workers join or leave, a number's records go to another worker from some moment on.
    """
    return stream.unary(pass_on, pact=Exchange(route), name=name)


def exchange_by(stream: Stream[T], key: Callable[[T], Any], *, name: str = "exchange_by") -> Stream[T]:
    """Bring all records with the same `key(record)` to the same worker, chosen by the key's stable hash.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> words = ["tea", "milk", "tea"]
    >>> example(lambda scope: to_stream(scope, words).exchange_by(lambda word: word).extract()).rows()
    ['tea', 'milk', 'tea']

    Keys are strings, bytes, numbers, `None`, and tuples of these. A key keeps its worker, one of those that the job
    began with, also when others join.
    """
    return stream.unary(pass_on, pact=fixed_by(key), name=name)


def deal(stream: Stream[T], *, name: str = "deal") -> Stream[T]:
    """Spread records over all workers, in equal slices of each container; also over those that join later.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, ["tea", "milk"]).deal().extract()).rows()
    ['tea', 'milk']
    """
    return stream.unary(pass_on, pact=Deal(), name=name)


def pass_on(input: InputHandle, output: OutputHandle) -> None:
    """The logic of operators whose pact does the work."""
    for capability, container in input:
        output.session(capability).give_container(container)
