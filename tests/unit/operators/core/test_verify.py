"""`verify`: two streams that should be the same."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from framework.errors import OperatorFailed
from framework.launch.execute import example
from operators import iterator_source, to_stream
from operators.errors import StreamsDiffer
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


@dataclass
class Point:
    x: int


def differs(left: list[tuple[int, list[Any]]], right: list[tuple[int, list[Any]]]) -> StreamsDiffer:
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: iterator_source(scope, left).verify(iterator_source(scope, right)).extract())
    error = caught.value.__cause__
    assert isinstance(error, StreamsDiffer)
    return error


@pytest.mark.parametrize(
    "rows",
    [
        ["a", "b", "a"],
        [1, 2.5, None, True, b"x", ("t", 1)],
        [[1], [2], [1]],
        [{"a": 1, "b": [2]}, {"a": 1, "b": [2]}],
        [{1, 2}, {3}, (1, [2])],
        [Point(1), Point(2), Point(1)],
        [Decimal("1.5"), 3],
    ],
)
def test_the_same_records_in_another_order(rows: list[Any]):
    result = example(lambda scope: to_stream(scope, rows).verify(to_stream(scope, rows[::-1])).extract())
    assert result.rows() == rows


def test_equal_records_of_other_types():
    left, right = [1, 0.0, {"a": 1, "b": 2}], [True, -0.0, {"b": 2.0, "a": 1}]
    assert example(lambda scope: to_stream(scope, left).verify(to_stream(scope, right)).extract()).rows() == left


def test_no_records_are_the_same():
    assert example(lambda scope: to_stream(scope, []).verify(to_stream(scope, [])).extract()).rows() == []


@pytest.mark.parametrize(
    ("left", "right", "missing", "surplus"),
    [
        (["a", "b"], ["b", "c", "c"], ["c", "c"], ["a"]),
        (["a", "a"], ["a"], [], ["a"]),
        ([], ["a"], ["a"], []),
        ([[1], [2]], [[1], [1]], [[1]], [[2]]),
        ([(1,)], [[1]], [[1]], [(1,)]),
        ([{"a": 1}], [{"a": 2}], [{"a": 2}], [{"a": 1}]),
        ([Point(1)], [Point(2)], [Point(2)], [Point(1)]),
    ],
)
def test_a_difference(left: list[Any], right: list[Any], missing: list[Any], surplus: list[Any]):
    error = differs([(0, ["same"]), (3, left)], [(0, ["same"]), (3, right)])
    assert (error.time, error.missing, error.surplus) == (3, missing, surplus)
    assert str(error) == (
        f"operator 'verify': the streams differ at time 3; missing are {missing!r}, and surplus are {surplus!r}"
    )


def test_the_same_records_at_another_time():
    error = differs([(0, ["a"])], [(1, ["a"])])
    assert (error.time, error.missing, error.surplus) == (0, [], ["a"])


def test_many_differences_are_not_all_shown():
    error = differs([(0, list(range(100)))], [])
    assert len(error.surplus) == 100
    assert str(error).endswith("surplus are [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] and 90 more")


@pytest.mark.parametrize("seed", SEEDS)
def test_records_of_different_workers_meet(seed: int):
    """The reference has everything on worker 1."""

    def build(scope):
        mine = scope.worker.index
        stream = iterator_source(scope, numbers(mine)).map(lambda n: {"number": [n]})
        reference = iterator_source(scope, all_numbers().items() if mine == 1 else [])
        return stream.verify(reference.map(lambda n: {"number": [float(n)]})).map(lambda r: r["number"][0]).extract()

    assert merged(run(build, seed=seed)) == all_numbers()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_difference_on_a_cluster(seed: int):
    def build(scope):
        mine = scope.worker.index
        stream = iterator_source(scope, numbers(mine)).map(lambda n: -1 if n == 2300 else n)
        reference = iterator_source(scope, all_numbers().items() if mine == 1 else [])
        stream.verify(reference).extract()

    with pytest.raises(OperatorFailed) as caught:
        run(build, seed=seed)
    error = caught.value.__cause__
    assert isinstance(error, StreamsDiffer)
    assert error.time == 3
    assert (error.missing, error.surplus) in [([2300], []), ([], [-1]), ([2300], [-1])]
