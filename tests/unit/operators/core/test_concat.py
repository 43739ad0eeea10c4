"""`concat` and `concatenate`: several streams as one."""

from __future__ import annotations

import pytest

from framework.errors import GraphError
from framework.launch.execute import example
from operators import concatenate, iterator_source, to_stream
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


@pytest.mark.parametrize("count", [1, 2, 5])
def test_any_number_of_streams(count: int):
    result = example(lambda scope: concatenate(scope, (to_stream(scope, [n]) for n in range(count))).extract())
    assert result.rows() == list(range(count))


def test_no_streams_are_an_empty_stream():
    assert example(lambda scope: concatenate(scope, []).extract()).rows() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster_parts_are_the_whole_again(seed: int):
    def build(scope):
        source = iterator_source(scope, numbers(scope.worker.index))
        return concatenate(scope, source.partition(4, lambda n: n % 4)).extract()

    assert merged(run(build, seed=seed)) == all_numbers()
