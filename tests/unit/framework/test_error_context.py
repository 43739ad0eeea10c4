"""A function that fails is told with the record it failed on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from framework.dataflow.scope import Scope
from framework.error_context import attach_record
from framework.errors import OperatorFailed
from framework.launch.execute import example
from framework.launch.report import render
from operators import Stream, process, to_stream


def inverse(number: int) -> float:
    return 1 / number


class Inverses:
    def initial(self) -> int:
        return 0

    def on_record(self, port: int, record: int, state: int, timers: Any) -> tuple[int, list[float]]:
        return state, [inverse(record)]

    def on_timer(self, key: Any, state: int, timers: Any) -> tuple[int, list[float]]:
        return state, []


def folded(stream: Stream[Any]) -> Stream[Any]:
    return stream.map(lambda n: ("key", n)).state_machine(lambda key, n, state: (state, [1 / n]), initial=0)


BUILDS: list[tuple[Callable[[Stream[Any]], Stream[Any]], str]] = [
    (lambda stream: stream.map(inverse), "0"),
    (lambda stream: stream.filter(inverse), "0"),
    (lambda stream: stream.flat_map(lambda n: [inverse(n)]), "0"),
    (lambda stream: stream.flat_map(lambda n: (inverse(one) for one in [n])), "0"),
    (folded, "('key', 0)"),
    (lambda stream: process([(stream, lambda n: n % 2)], Inverses()), "0"),
]


@pytest.mark.parametrize(("build", "record"), BUILDS)
def test_the_report_shows_the_record(build: Callable[[Stream[Any]], Stream[Any]], record: str):
    def dataflow(scope: Scope) -> object:
        return build(to_stream(scope, [4, 2, 0, 1])).extract()

    with pytest.raises(OperatorFailed) as caught:
        example(dataflow)
    assert f"ZeroDivisionError: division by zero\n  the record was {record}\n" in render(caught.value, 0)


def test_a_long_record_is_cut():
    error = ValueError()
    attach_record(error, "x" * 1_000)
    assert error.__notes__ == [f"the record was '{'x' * 399}… (1,002 characters)"]


class Unprintable:
    def __repr__(self) -> str:
        raise KeyError("tea")


def test_a_record_that_cannot_be_shown_hides_no_error():
    error = ValueError("milk")
    attach_record(error, Unprintable())
    assert error.__notes__ == ["the record was a Unprintable, whose repr raised KeyError"]
