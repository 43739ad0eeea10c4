"""`map`: one record in, one record out."""

from __future__ import annotations

import pytest

from framework.errors import OperatorFailed
from framework.launch.execute import example
from operators import iterator_source, to_stream
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_each_record_is_replaced_and_keeps_its_time_and_place():
    result = example(lambda scope: iterator_source(scope, [(0, [1, 2]), (3, [3])]).map(lambda n: -n).extract())
    assert result.by_time() == {0: [-1, -2], 3: [-3]}


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    results = run(
        lambda scope: iterator_source(scope, numbers(scope.worker.index)).map(lambda n: n + 1).extract(), seed=seed
    )
    assert merged(results) == {time: [n + 1 for n in rows] for time, rows in all_numbers().items()}
    assert [len(result.rows()) for result in results] == [20, 20, 20]


def test_a_function_that_raises_is_reported_with_operator_worker_and_time():
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: iterator_source(scope, [(7, [0])]).map(lambda n: 1 // n, name="invert").extract())
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert (caught.value.operator, caught.value.worker, caught.value.time) == ("invert", 0, 7)


def test_the_input_container_is_left_as_it_was():
    """Two operators that read one stream see the same records."""

    def build(scope):
        source = to_stream(scope, [1, 2])
        return source.map(str).extract(), source.extract()

    mapped, source = example(build)
    assert (mapped.rows(), source.rows()) == (["1", "2"], [1, 2])
