"""`connect_loop`: where a loop ends."""

from __future__ import annotations

import pytest

from framework.errors import GraphError
from framework.launch.execute import example
from operators import feedback, to_stream
from operators.core.connect_loop import connect_loop


def test_a_stream_of_another_scope():
    def build(scope):
        loop, _ = feedback(scope)
        with scope.iterative("inner") as inner:
            to_stream(scope, [1]).enter(inner).connect_loop(loop)

    with pytest.raises(GraphError, match="a stream of scope 'inner' cannot be used in scope 'example'"):
        example(build)


def test_as_a_function():
    def build(scope):
        loop, again = feedback(scope)
        rounds = to_stream(scope, ["round"]).concat(again)
        connect_loop(rounds.branch_when(lambda time: time < 1)[1], loop)
        return rounds.extract()

    assert example(build).by_time() == {0: ["round"], 1: ["round"]}
