"""`concat`: several streams as one."""

from __future__ import annotations

import pytest

from framework.errors import GraphError
from framework.launch.execute import example
from operators import iterator_source, to_stream
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_three_streams_keep_their_times():
    def build(scope):
        first = iterator_source(scope, [(0, ["a"]), (4, ["b"])])
        return first.concat(to_stream(scope, ["c"]), iterator_source(scope, [(4, ["d"])])).extract()

    by_time = example(build).by_time()
    assert {time: sorted(rows) for time, rows in by_time.items()} == {0: ["a", "c"], 4: ["b", "d"]}


def test_with_itself_every_record_comes_twice():
    def build(scope):
        stream = to_stream(scope, ["a"])
        return stream.concat(stream).extract()

    assert example(build).rows() == ["a", "a"]


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    def build(scope):
        stream = iterator_source(scope, numbers(scope.worker.index))
        return stream.concat(stream.map(lambda n: -n)).extract()

    expected = {time: sorted([*rows, *(-n for n in rows)]) for time, rows in all_numbers().items()}
    assert merged(run(build, seed=seed)) == expected


def test_streams_of_two_scopes():
    def build(scope):
        outer = to_stream(scope, [1])
        with scope.region("inner") as inner:
            return outer.enter(inner).concat(outer)

    with pytest.raises(GraphError, match="a stream of scope 'example' cannot be used in scope 'inner'"):
        example(build)
