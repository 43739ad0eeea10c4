"""`stateful_binary` and `stateful_binary_input`: two streams, one state per bin."""

from __future__ import annotations

from typing import Any

import pytest

from framework.launch.execute import example
from framework.membership.members import WorkerId
from operators import empty, iterator_source
from routing.commands import Control, Map
from tests.unit.operators.cluster import SEEDS, merged, run


def test_both_streams_change_one_state():
    def fold(time: int, rows: list[str], others: list[str], bin: Any) -> list[Any]:
        bin.state += len(others) - len(rows)
        return [bin.state]

    def build(scope: Any) -> Any:
        orders = iterator_source(scope, [(1, ["tea"]), (3, ["tea"])])
        deliveries = iterator_source(scope, [(0, ["tea"]), (2, ["tea", "tea"])])
        return orders.stateful_binary(
            deliveries, fold, key=str, other_key=str, initial=0, control=empty(scope), bins=4
        ).extract()

    assert example(build).by_time() == {0: [1], 1: [0], 2: [2], 3: [1]}


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster_a_join_meets_although_its_bins_move(seed: int):
    def consume(time: int, rows: list[Any], others: list[Any], bin: Any) -> list[Any]:
        for side, some in enumerate((rows, others)):
            for key, value in some:
                bin.state.setdefault(key, ([], []))[side].append(value)
                bin.put_off(time, key)
        return []

    def fold(time: int, items: list[Any], bin: Any) -> list[Any]:
        return [(key, sorted(bin.state[key][0]), sorted(bin.state[key][1])) for key in set(items)]

    left = [(epoch, [(key, epoch) for key in range(4)]) for epoch in range(4)]
    right = [(epoch, [(key, 10 + epoch) for key in range(2, 6)]) for epoch in range(4)]
    maps = [(epoch, [Control(epoch, 1, Map(tuple(WorkerId((b + epoch) % 3) for b in range(8))))]) for epoch in range(4)]

    def build(scope: Any) -> Any:
        worker = scope.worker.index
        control = iterator_source(scope, maps if worker == 0 else []).broadcast()
        one = iterator_source(scope, left if worker == 1 else [])
        other = iterator_source(scope, right if worker == 2 else [])
        return one.stateful_binary_input(
            other, consume, fold, key=lambda r: r[0], other_key=lambda r: r[0], initial=dict, control=control, bins=8
        ).extract()

    expected = {
        epoch: sorted(
            (
                key,
                list(range(epoch + 1)) if key < 4 else [],
                list(range(10, 11 + epoch)) if key >= 2 else [],
            )
            for key in range(6)
        )
        for epoch in range(4)
    }
    assert merged(run(build, seed=seed)) == expected
