"""`attempt`: results and rejects."""

from __future__ import annotations

import pytest

from framework.dataflow.scope import Scope
from framework.launch.execute import example
from operators import Extracted, iterator_source
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def even(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2


def test_each_record_goes_one_way_at_its_own_time():
    def build(scope: Scope) -> tuple[Extracted[int], Extracted[tuple[int, str]]]:
        halves, rejected = iterator_source(scope, [(0, [2, 3]), (1, [5])]).attempt(even)
        return halves.extract(), rejected.extract()

    halves, rejected = example(build)
    assert halves.by_time() == {0: [1]}
    assert rejected.by_time() == {0: [(3, "ValueError: 3 is odd")], 1: [(5, "ValueError: 5 is odd")]}


def test_what_is_no_exception_is_not_caught():
    def stop(number: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        example(lambda scope: iterator_source(scope, [(0, [1])]).attempt(stop)[0].extract())


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    def build(scope: Scope) -> Extracted[int]:
        halves, rejected = iterator_source(scope, numbers(scope.worker.index)).attempt(even)
        return halves.map(lambda n: 2 * n).concat(rejected.map(lambda reject: reject[0])).extract()

    assert merged(run(build, seed=seed)) == all_numbers()
