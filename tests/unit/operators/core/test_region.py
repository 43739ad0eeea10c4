"""`region`: operators that count as one."""

from __future__ import annotations

import pytest

from framework.errors import GraphError
from framework.launch.execute import example
from operators import iterator_source, to_stream
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_the_body_is_applied_within_a_scope_of_its_own():
    names: list[str] = []

    def body(stream):
        names.append(stream.scope.name)
        return stream.map(str).map(len)

    assert example(lambda scope: to_stream(scope, [1, 22]).region(body, name="measure").extract()).rows() == [1, 2]
    assert names == ["measure"]


def test_a_body_that_returns_a_stream_from_outside():
    def build(scope):
        outside = to_stream(scope, [1])
        outside.region(lambda inside: outside)

    with pytest.raises(GraphError, match="nothing around it"):
        example(build)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    def build(scope):
        stream = iterator_source(scope, numbers(scope.worker.index))
        return stream.region(lambda inside: inside.exchange(lambda n: n).map(lambda n: n)).extract()

    assert merged(run(build, seed=seed)) == all_numbers()
