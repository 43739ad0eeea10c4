"""`count`: how many records there are at each time."""

from __future__ import annotations

import pytest

from framework.launch.execute import example
from operators import iterator_source, to_stream
from tests.unit.operators.cluster import SEEDS, merged, numbers, run


def test_per_time():
    batches = [(0, ["a"]), (0, ["b", "c"]), (4, ["d"])]
    assert example(lambda scope: iterator_source(scope, batches).count().extract()).by_time() == {0: [3], 4: [1]}


def test_nothing_to_count():
    assert example(lambda scope: to_stream(scope, []).count().extract()).rows() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_all_workers_together(seed: int):
    def build(scope):
        rows = 2 + scope.worker.index
        return iterator_source(scope, numbers(scope.worker.index, rows=rows)).count().extract()

    assert merged(run(build, seed=seed)) == {epoch: [2 + 3 + 4] for epoch in range(5)}
