"""`partition`: one stream as several."""

from __future__ import annotations

import pytest

from framework.errors import GraphError, OperatorFailed
from framework.launch.execute import example
from operators import iterator_source, to_stream
from operators.errors import RouteOutOfRange
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_each_record_goes_to_the_output_that_it_asks_for():
    def build(scope):
        parts = iterator_source(scope, [(0, [0, 1, 2, 3]), (1, [5, 4])]).partition(3, lambda n: n % 3)
        return [part.extract() for part in parts]

    assert [part.by_time() for part in example(build)] == [{0: [0, 3]}, {0: [1], 1: [4]}, {0: [2], 1: [5]}]


@pytest.mark.parametrize("index", [-1, 2, 1.5, None])
def test_an_output_that_is_not_there(index: int):
    def build(scope):
        for part in to_stream(scope, ["fine", "stray"]).partition(2, lambda word: 0 if word == "fine" else index):
            part.extract()

    with pytest.raises(OperatorFailed) as caught:
        example(build)
    assert isinstance(caught.value.__cause__, RouteOutOfRange)
    assert str(caught.value.__cause__) == (
        f"operator 'partition' has outputs 0 to 1, and its route gave {index!r} for 'stray'"
    )


def test_into_no_streams():
    with pytest.raises(GraphError, match="operator 'partition' splits a stream into at least 1, not into 0"):
        example(lambda scope: to_stream(scope, [1]).partition(0, lambda n: 0))


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    def build(scope):
        parts = iterator_source(scope, numbers(scope.worker.index)).partition(2, lambda n: n % 2)
        return [part.extract() for part in parts]

    even, odd = zip(*run(build, seed=seed), strict=True)
    assert merged(list(even)) == {time: [n for n in rows if n % 2 == 0] for time, rows in all_numbers().items()}
    assert merged(list(odd)) == {time: [n for n in rows if n % 2 == 1] for time, rows in all_numbers().items()}
