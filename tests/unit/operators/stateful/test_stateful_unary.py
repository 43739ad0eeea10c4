"""`stateful_unary` and `stateful_unary_input`: a state per bin, and its timers (`per_bin_logic`)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from framework.errors import OperatorFailed, TimeNotCovered
from framework.launch.execute import example
from framework.membership.members import WorkerId
from operators import empty, iterator_source, to_stream
from operators.errors import FoldMisreturned
from routing.commands import Control, Map
from tests.unit.operators.cluster import SEEDS, merged, run


def test_records_are_applied_by_bin_and_come_back_when_put_off():
    def fold(time: int, rows: list[int], bin: Any) -> list[Any]:
        bin.state["seen"] = bin.state.get("seen", 0) + len(rows)
        for row in rows:
            if row < 3:
                bin.put_off(time + row + 1, row + 10)
        return [(row, bin.state["seen"]) for row in rows]

    def build(scope: Any) -> Any:
        return (
            iterator_source(scope, [(0, [0, 2]), (2, [7])])
            .stateful_unary(fold, key=lambda row: "all", initial=dict, control=empty(scope), bins=8)
            .extract()
        )

    assert example(build).by_time() == {0: [(0, 2), (2, 2)], 1: [(10, 3)], 2: [(7, 4)], 3: [(12, 5)]}


def test_what_is_put_off_until_now_comes_when_now_is_complete():
    def consume(time: int, rows: list[int], bin: Any) -> list[Any]:
        bin.state += sum(rows)
        bin.put_off(time, "total")
        return []

    def fold(time: int, items: list[str], bin: Any) -> list[Any]:
        return [(set(items), bin.state)]

    def build(scope: Any) -> Any:
        return (
            iterator_source(scope, [(0, [1]), (0, [2]), (1, [4])])
            .stateful_unary_input(consume, fold, key=lambda _: 0, initial=0, control=empty(scope))
            .extract()
        )

    assert example(build).by_time() == {0: [({"total"}, 3)], 1: [({"total"}, 7)]}


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster_what_was_put_off_moves_along(seed: int):
    """Every bin goes round the workers while its items wait; each comes back once, with the state of all before it."""

    def consume(time: int, rows: list[tuple[int, int]], bin: Any) -> list[Any]:
        for key, wait in rows:
            bin.state[key] = bin.state.get(key, 0) + 1
            bin.put_off(time + wait, key)
        return []

    def fold(time: int, items: list[int], bin: Any) -> list[Any]:
        return [(key, bin.state[key]) for key in items]

    rows = [(epoch, [(key, (key + epoch) % 4) for key in range(6)]) for epoch in range(6)]
    maps = [(epoch, [Control(epoch, 1, Map(tuple(WorkerId((b + epoch) % 3) for b in range(4))))]) for epoch in range(6)]

    def build(scope: Any) -> Any:
        first = scope.worker.index == 0
        control = iterator_source(scope, maps if first else []).broadcast()
        return (
            iterator_source(scope, rows if first else [])
            .stateful_unary_input(consume, fold, key=lambda row: row[0], initial=dict, control=control, bins=4)
            .extract()
        )

    expected: dict[int, list[tuple[int, int]]] = {}
    totals: Counter[int] = Counter()
    for epoch in range(10):
        for key, _ in rows[epoch][1] if epoch < 6 else []:
            totals[key] += 1
        due = [key for sent, some in rows for key, wait in some if sent + wait == epoch]
        if due:
            expected[epoch] = sorted((key, totals[key]) for key in due)
    assert merged(run(build, seed=seed)) == expected


def test_putting_off_until_a_time_that_has_passed():
    def fold(time: int, rows: list[int], bin: Any) -> list[Any]:
        bin.put_off(time - 1, "too late")
        return []

    with pytest.raises(OperatorFailed) as caught:
        example(
            lambda scope: iterator_source(scope, [(4, [1])]).stateful_unary(
                fold, key=int, initial=dict, control=empty(scope)
            )
        )
    assert isinstance(caught.value.__cause__, TimeNotCovered)
    assert "cannot put 'too late' off until 3: it is at 4" in str(caught.value.__cause__)


def test_a_function_that_returns_no_list():
    with pytest.raises(OperatorFailed) as caught:
        example(
            lambda scope: to_stream(scope, [1]).stateful_unary(
                lambda *_: None,  # type: ignore[arg-type]
                key=int,
                initial=dict,
                control=empty(scope),
            )
        )
    assert isinstance(caught.value.__cause__, FoldMisreturned)
