"""`to_stream`: a stream from something to iterate over."""

from __future__ import annotations

import pytest

from framework.dataflow.handle import ROWS_PER_CONTAINER
from framework.launch.execute import example
from framework.progress.order import Product
from operators import to_stream
from tests.unit.operators.cluster import SEEDS, merged, run


def test_many_records_come_in_several_containers():
    sizes: list[int] = []
    count = 2 * ROWS_PER_CONTAINER + 1
    result = example(
        lambda scope: (
            to_stream(scope, iter(range(count))).inspect_batch(lambda time, rows: sizes.append(len(rows))).extract()
        )
    )
    assert result.rows() == list(range(count))
    assert sizes == [ROWS_PER_CONTAINER, ROWS_PER_CONTAINER, 1]


def test_nothing_to_iterate_over():
    assert example(lambda scope: to_stream(scope, []).extract()).rows() == []


def test_in_a_nested_scope_at_its_least_time():
    def build(scope):
        with scope.iterative() as inner:
            return to_stream(inner, ["a"]).extract()

    assert example(build).by_time() == {Product(0, 0): ["a"]}


@pytest.mark.parametrize("seed", SEEDS)
def test_each_worker_sends_its_own(seed: int):
    results = run(lambda scope: to_stream(scope, [scope.worker.index] * 2).broadcast().extract(), seed=seed)
    assert [merged([result]) for result in results] == [{0: [0, 0, 1, 1, 2, 2]}] * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_it_pauses_while_links_are_congested_and_goes_on_afterwards(seed: int):
    records = list(range(3 * ROWS_PER_CONTAINER))
    results = run(
        lambda scope: to_stream(scope, records if scope.worker.index == 0 else []).exchange(lambda n: 1).extract(),
        seed=seed,
        workers=2,
        congested_frames=0,
    )
    assert [result.rows() for result in results] == [[], records]
