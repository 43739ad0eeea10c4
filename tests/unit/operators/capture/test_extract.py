"""`extract`: what a stream carried."""

from __future__ import annotations

import pytest

from framework.launch.execute import example, execute
from framework.progress.order import Product
from operators import Extracted, unordered_input
from operators.input.iterator_source import iterator_source
from tests.unit.operators.cluster import SEEDS, numbers, run


def test_rows_are_sorted_by_time_and_then_by_arrival():
    def main(worker):
        with worker.dataflow() as scope:
            input, now, stream = unordered_input(scope)
            result = stream.extract()
        with now, now.delayed(3) as later:
            input.send(later, "d")
            input.send(now, "b")
            input.send(later, "c")
            input.send(now, "a")
        return result

    [result] = execute(main)
    assert result.rows() == ["b", "a", "d", "c"]
    assert list(result.by_time().items()) == [(0, ["b", "a"]), (3, ["d", "c"])]


def test_product_times_are_sorted_by_their_coordinates():
    result: Extracted[str] = Extracted()
    for time in Product(1, 0), Product(0, 3), Product(0, 1):
        result.add(time, [repr(time)])
    assert result.rows() == ["(0, 1)", "(0, 3)", "(1, 0)"]


def test_what_is_returned_can_be_changed():
    result = example(lambda scope: iterator_source(scope, [(0, ["a"])]).extract())
    result.by_time()[0].append("b")
    result.rows().append("c")
    assert result.by_time() == {0: ["a"]}


@pytest.mark.parametrize("seed", SEEDS)
def test_each_worker_has_its_own(seed: int):
    results = run(lambda scope: iterator_source(scope, numbers(scope.worker.index)).extract(), seed=seed)
    assert [result.by_time() for result in results] == [dict(numbers(worker)) for worker in range(3)]


def test_those_of_several_workers_are_merged_and_stay_as_they_are():
    first, second = Extracted[str](), Extracted[str]()
    first.add(1, ["a", "b"])
    second.add(0, ["c"])
    second.add(1, ["d"])
    merged = Extracted.merged([first, second])
    first.add(1, ["e"])
    assert merged.by_time() == {0: ["c"], 1: ["a", "b", "d"]}
    assert Extracted[str].merged([]).rows() == []
