"""`accumulate`: one result per time."""

from __future__ import annotations

import pytest

from framework.dataflow.pact import Exchange
from framework.errors import OperatorFailed
from framework.launch.execute import example
from operators import iterator_source, to_stream
from operators.errors import SharedInitial
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_containers_are_folded_and_times_kept_apart():
    batches = [(0, ["a"]), (0, ["b", "c"]), (4, ["d"])]
    result = example(
        lambda scope: (
            iterator_source(scope, batches).accumulate(lambda text, rows: text + "".join(rows), initial="=").extract()
        )
    )
    assert result.by_time() == {0: ["=abc"], 4: ["=d"]}


def test_a_factory():
    def gather(state, rows):
        state.extend(rows)
        return state

    batches = [(0, ["a"]), (1, ["b"])]
    result = example(lambda scope: iterator_source(scope, batches).accumulate(gather, initial=list).extract())
    assert result.by_time() == {0: [["a"]], 1: [["b"]]}


def test_a_list_as_initial_state():
    with pytest.raises(SharedInitial, match="operator 'accumulate'"):
        example(lambda scope: to_stream(scope, [1]).accumulate(lambda state, rows: state, initial=[]))


def test_a_fold_that_returns_nothing():
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: to_stream(scope, [1]).accumulate(lambda some, rows: some.extend(rows), initial=list))
    assert "returned None for a container; return the state, also" in str(caught.value.__cause__)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_result_per_worker_or_by_a_pact_per_time(seed: int):
    def build(scope):
        source = iterator_source(scope, numbers(scope.worker.index))
        largest = source.accumulate(lambda state, rows: max(state, *rows), initial=-1)
        overall = largest.accumulate(lambda state, rows: max(state, *rows), initial=-1, pact=Exchange(lambda n: 2))
        return largest.extract(), overall.extract()

    largest, overall = zip(*run(build, seed=seed), strict=True)
    assert merged(list(largest)) == {t: sorted(max(dict(numbers(w))[t]) for w in range(3)) for t in range(5)}
    assert [result.by_time() for result in overall] == [{}, {}, {t: [max(rows)] for t, rows in all_numbers().items()}]
