"""`leave`: out of a nested scope."""

from __future__ import annotations

import pytest

from framework.errors import GraphError
from framework.launch.execute import example
from operators import iterator_source, to_stream
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_times_lose_their_last_coordinate():
    def build(scope):
        with scope.iterative() as outer:
            with outer.iterative() as inner:
                stream = iterator_source(scope, [(2, ["a"])]).enter(outer).enter(inner).leave()
            return stream.leave().extract()

    assert example(build).by_time() == {2: ["a"]}


def test_out_of_a_dataflow():
    with pytest.raises(GraphError, match="nothing around it to leave into"):
        example(lambda scope: to_stream(scope, [1]).leave())


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    def build(scope):
        with scope.iterative() as inner:
            stream = iterator_source(scope, numbers(scope.worker.index)).enter(inner).exchange(lambda n: n)
            return stream.leave().exchange(lambda n: n // 7).extract()

    assert merged(run(build, seed=seed)) == all_numbers()
