"""`enter`: into a nested scope."""

from __future__ import annotations

import pytest

from framework.errors import GraphError
from framework.launch.execute import example
from framework.progress.order import Product
from operators import iterator_source, to_stream


def test_times_gain_a_coordinate_in_an_iterative_scope():
    def build(scope):
        with scope.iterative() as inner:
            return iterator_source(scope, [(0, ["a"]), (5, ["b"])]).enter(inner).extract()

    assert example(build).by_time() == {Product(0, 0): ["a"], Product(5, 0): ["b"]}


def test_times_stay_in_a_region():
    def build(scope):
        with scope.region() as inner:
            return iterator_source(scope, [(0, ["a"]), (5, ["b"])]).enter(inner).extract()

    assert example(build).by_time() == {0: ["a"], 5: ["b"]}


def test_two_scopes_deep():
    def build(scope):
        with scope.iterative() as outer, outer.iterative() as inner:
            return to_stream(scope, ["a"]).enter(outer).enter(inner).extract()

    assert example(build).by_time() == {Product(Product(0, 0), 0): ["a"]}


def test_past_a_scope():
    def build(scope):
        with scope.iterative("outer") as outer, outer.iterative("inner") as inner:
            to_stream(scope, ["a"]).enter(inner)

    with pytest.raises(GraphError, match="scope 'inner' takes in streams of scope 'outer'"):
        example(build)
