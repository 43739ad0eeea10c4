"""`broadcast`: every record on every worker."""

from __future__ import annotations

import pytest

from framework.launch.execute import example
from operators import iterator_source, to_stream
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_on_one_worker_once():
    assert example(lambda scope: to_stream(scope, ["a", "b"]).broadcast().extract()).rows() == ["a", "b"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_all_workers_see_all_records(workers: int, seed: int):
    results = run(
        lambda scope: iterator_source(scope, numbers(scope.worker.index)).broadcast().extract(),
        seed=seed,
        workers=workers,
    )
    for result in results:
        assert merged([result]) == all_numbers(workers)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_output_of_a_scope(seed: int):
    """Progress of a scope's output is counted on behalf of all workers; copies must not confuse it."""
    results = run(
        lambda scope: (
            iterator_source(scope, numbers(scope.worker.index))
            .region(lambda stream: stream.map(lambda n: n))
            .broadcast()
            .extract()
        ),
        seed=seed,
    )
    for result in results:
        assert merged([result]) == all_numbers()
