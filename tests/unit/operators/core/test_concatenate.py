"""`concatenate`: any number of streams as one."""

from __future__ import annotations

import pytest

from framework.launch.execute import example
from operators import concatenate, iterator_source, to_stream
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


@pytest.mark.parametrize("count", [1, 2, 5])
def test_so_many_streams(count: int):
    result = example(lambda scope: concatenate(scope, (to_stream(scope, [n]) for n in range(count))).extract())
    assert result.rows() == list(range(count))


def test_no_streams_are_an_empty_stream():
    assert example(lambda scope: concatenate(scope, []).extract()).rows() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    def build(scope):
        source = iterator_source(scope, numbers(scope.worker.index))
        return concatenate(scope, source.partition(4, lambda n: n % 4)).extract()

    assert merged(run(build, seed=seed)) == all_numbers()
