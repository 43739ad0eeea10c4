"""`aggregate`: one result per key and time."""

from __future__ import annotations

from typing import Any

import pytest

from framework.errors import OperatorFailed
from framework.launch.execute import example
from operators import Probe, iterator_source, to_stream
from operators.errors import FoldMisreturned, RecordNotPair, SharedInitial
from routing.hashing import UnsupportedKey
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_keys_start_anew_at_each_time():
    batches = [(0, [("a", 1), ("b", 2), ("a", 3)]), (1, [("a", 4)])]
    result = example(
        lambda scope: iterator_source(scope, batches).aggregate(lambda key, n, total: total + n, initial=0).extract()
    )
    assert result.by_time() == {0: [("a", 4), ("b", 2)], 1: [("a", 4)]}


def test_a_factory():
    def gather(key, value, state):
        state.append(value)
        return state

    pairs = [("a", 1), ("b", 2), ("a", 3)]
    result = example(lambda scope: to_stream(scope, pairs).aggregate(gather, initial=list).extract())
    assert result.rows() == [("a", [1, 3]), ("b", [2])]


def test_a_list_as_initial_state():
    with pytest.raises(SharedInitial):
        example(lambda scope: to_stream(scope, [("a", 1)]).aggregate(lambda key, n, total: total, initial=[]))


def test_a_record_that_is_not_a_pair():
    records: list[Any] = [7]
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: to_stream(scope, records).aggregate(lambda key, n, total: total, initial=0).extract())
    assert isinstance(caught.value.__cause__, RecordNotPair)
    assert str(caught.value.__cause__) == (
        "operator 'aggregate' expects pairs (key, value), and received 7; say `key=`, or put a `map` before it"
    )


@pytest.mark.parametrize("pairs", [[("a", 1)], [("a", 1), ("a", 2)]])
def test_a_fold_that_returns_nothing(pairs: Any):
    def fold(key, n, some):
        some.append(n)

    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: to_stream(scope, pairs).aggregate(fold, initial=list).extract())
    assert isinstance(caught.value.__cause__, FoldMisreturned)
    assert str(caught.value.__cause__) == (
        f"operator 'aggregate' expects a fold that returns the new state; fold "
        f"({__file__}:{fold.__code__.co_firstlineno}) returned None for ('a', 1); return the state, also if it was "
        f"changed in place"
    )


def test_none_is_a_state_where_states_begin_with_it():
    pairs = [("a", 0), ("b", 2), ("b", 3)]

    def largest(key, n, most):
        return max(n, most or 0) or None

    result = example(lambda scope: to_stream(scope, pairs).aggregate(largest, initial=None).extract())
    assert result.rows() == [("a", None), ("b", 3)]


def test_a_fold_that_raises_is_told_with_the_record():
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: to_stream(scope, [("a", 0)]).aggregate(lambda k, n, s: 1 // n, initial=0).extract())
    assert caught.value.__cause__.__notes__ == ["the record was ('a', 0)"]  # type: ignore[union-attr]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("pairs", [[([], 1)], [("a", 1), ([], 1)], [(frozenset(), 1)]])
def test_a_key_without_a_stable_hash(pairs: Any, workers: int):
    """What would fail on several workers fails on one as well."""
    with pytest.raises(OperatorFailed) as caught:
        run(
            lambda scope: to_stream(scope, pairs).aggregate(lambda key, n, total: total, initial=0).extract(),
            seed=0,
            workers=workers,
        )
    assert isinstance(caught.value.__cause__, UnsupportedKey)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster_one_result_per_key(seed: int):
    """A result comes when its time is complete everywhere, so each key comes once per time."""

    def build(scope):
        probe = Probe()
        pairs = iterator_source(scope, numbers(scope.worker.index)).map(lambda n: (n % 7, n)).probe(probe)
        sums = pairs.aggregate(lambda key, n, total: total + n, initial=0)
        return sums.inspect_time(lambda time, pair: _check(not probe.less_equal(time))).extract()

    expected = {
        time: sorted((key, sum(n for n in rows if n % 7 == key)) for key in {n % 7 for n in rows})
        for time, rows in all_numbers().items()
    }
    assert merged(run(build, seed=seed)) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_in_a_nested_scope(seed: int):
    """In each round, the numbers that are left are added up."""

    def build(scope):
        def body(variable):
            sums = variable.map(lambda n: ("all", n)).aggregate(lambda key, n, total: total + n, initial=0)
            return variable.map(lambda n: n - 1).filter(lambda n: n > 0), sums.map(lambda pair: pair[1])

        return iterator_source(scope, [(0, [3]), (1, [2])]).iterate(body).extract()

    assert merged(run(build, seed=seed, workers=2)) == {0: [2, 4, 6], 1: [2, 4]}


def _check(holds: bool) -> None:
    assert holds
