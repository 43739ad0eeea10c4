"""`delay` and `delay_batch`: records at a later time."""

from __future__ import annotations

from typing import Any

import pytest

from framework.errors import GraphError, OperatorFailed, TimeNotCovered
from framework.launch.execute import example
from framework.progress.order import Product
from operators import Probe, iterator_source, to_stream
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_each_record_moves_to_a_time_of_its_own():
    batches = [(0, [5, 1, 5]), (1, [1]), (4, [4])]
    result = example(lambda scope: iterator_source(scope, batches).delay(lambda time, n: max(time, n)).extract())
    assert result.by_time() == {1: [1, 1], 4: [4], 5: [5, 5]}


def test_whole_containers_move():
    batches = [(0, ["a", "b"]), (3, ["c"]), (11, ["d"])]
    result = example(lambda scope: iterator_source(scope, batches).delay_batch(lambda time: time | 7).extract())
    assert result.by_time() == {7: ["a", "b", "c"], 15: ["d"]}


def test_in_a_nested_scope():
    def build(scope):
        with scope.iterative() as inner:
            return to_stream(inner, [2, 0]).delay(lambda time, n: Product(time.outer, time.inner + n)).extract()

    assert example(build).by_time() == {Product(0, 0): [0], Product(0, 2): [2]}


def test_to_an_earlier_time_even_if_others_wait_there():
    batches = [(1, [4]), (3, [4]), (5, [4])]
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: iterator_source(scope, batches).delay(lambda time, n: n).extract())
    assert isinstance(caught.value.__cause__, TimeNotCovered)
    assert caught.value.time == 5


@pytest.mark.parametrize("bad", ["soon", 1.5, Product(0, 0), None])
def test_to_what_is_not_a_time(bad: Any):
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: to_stream(scope, [1]).delay(lambda time, n: bad).extract())
    assert isinstance(caught.value.__cause__, GraphError)


@pytest.mark.parametrize("seed", SEEDS)
def test_records_are_released_when_their_new_time_is_complete(seed: int):
    def build(scope):
        before = Probe()
        source = iterator_source(scope, numbers(scope.worker.index)).exchange(lambda n: n).probe(before)
        later = source.delay(lambda time, n: time + n % 3)
        return later.inspect_time(lambda time, n: _check(not before.less_equal(time))).extract()

    expected: dict[Any, list[int]] = {}
    for time, rows in all_numbers().items():
        for n in rows:
            expected.setdefault(time + n % 3, []).append(n)
    assert merged(run(build, seed=seed)) == {time: sorted(expected[time]) for time in sorted(expected)}


def _check(holds: bool) -> None:
    assert holds
