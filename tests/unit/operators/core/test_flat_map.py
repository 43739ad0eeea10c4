"""`flat_map`: one record in, any number out."""

from __future__ import annotations

from typing import Any

import pytest

from framework.errors import OperatorFailed
from framework.launch.execute import example
from operators import iterator_source, to_stream
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_none_one_and_several_in_order():
    lines = [(0, ["", "a", "b c d"]), (1, ["e f"])]
    result = example(lambda scope: iterator_source(scope, lines).flat_map(str.split).extract())
    assert result.by_time() == {0: ["a", "b", "c", "d"], 1: ["e", "f"]}


def test_a_generator_function():
    assert example(lambda scope: to_stream(scope, [3, 2]).flat_map(range).extract()).rows() == [0, 1, 2, 0, 1]


def test_a_container_of_which_nothing_remains_does_not_hold_the_frontier():
    assert example(lambda scope: to_stream(scope, [1, 2]).flat_map(lambda n: ()).extract()).rows() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    results = run(
        lambda scope: iterator_source(scope, numbers(scope.worker.index)).flat_map(lambda n: [n] * (n % 3)).extract(),
        seed=seed,
    )
    expected = {time: [n for n in rows for _ in range(n % 3)] for time, rows in all_numbers().items()}
    assert merged(results) == expected


def test_a_result_that_is_not_iterable():
    records: list[Any] = [1]
    with pytest.raises(OperatorFailed, match="'flat_map'") as caught:
        example(lambda scope: to_stream(scope, records).flat_map(lambda n: n).extract())
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_batch_becomes_another_one():
    days = [(0, [3, 1, 2]), (1, [5]), (2, [])]
    result = example(lambda scope: iterator_source(scope, days).flat_map_batch(lambda rows: sorted(rows)[1:]).extract())
    assert result.by_time() == {0: [2, 3]}


@pytest.mark.parametrize("returned", [None, "tea", ("a",), {"a": 1}])
def test_a_batch_that_is_no_list(returned: Any):
    with pytest.raises(OperatorFailed, match="'shorten'") as caught:
        example(lambda scope: to_stream(scope, ["a"]).flat_map_batch(lambda rows: returned, name="shorten").extract())
    assert str(caught.value.__cause__) == (
        f"operator 'shorten' expects a list of records, and its function returned {returned!r}"
    )
