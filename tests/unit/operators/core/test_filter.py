"""`filter`: some records stay."""

from __future__ import annotations

import pytest

from framework.launch.execute import example
from operators import iterator_source, to_stream
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_true_and_false_as_python_sees_them():
    assert example(lambda scope: to_stream(scope, ["", "a", "b", ""]).filter(len).extract()).rows() == ["a", "b"]


def test_nothing_stays_and_the_dataflow_completes():
    assert example(lambda scope: to_stream(scope, range(9)).filter(lambda n: False).extract()).rows() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    results = run(
        lambda scope: iterator_source(scope, numbers(scope.worker.index)).filter(lambda n: n % 2).extract(), seed=seed
    )
    assert merged(results) == {time: [n for n in rows if n % 2] for time, rows in all_numbers().items()}
