"""`inspect`, `inspect_time`, `inspect_batch`: look, and let pass."""

from __future__ import annotations

from typing import Any

import pytest

from framework.launch.execute import example
from operators import iterator_source
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run

BATCHES = [(0, ["a", "b"]), (2, ["c"])]


def test_inspect_sees_records():
    seen: list[str] = []
    result = example(lambda scope: iterator_source(scope, BATCHES).inspect(seen.append).extract())
    assert seen == ["a", "b", "c"]
    assert result.by_time() == {0: ["a", "b"], 2: ["c"]}


def test_inspect_time_sees_times_and_records():
    seen: list[tuple[Any, str]] = []
    result = example(
        lambda scope: iterator_source(scope, BATCHES).inspect_time(lambda *pair: seen.append(pair)).extract()
    )
    assert seen == [(0, "a"), (0, "b"), (2, "c")]
    assert result.by_time() == {0: ["a", "b"], 2: ["c"]}


def test_inspect_batch_sees_times_and_containers():
    seen: list[tuple[Any, list[str]]] = []
    result = example(
        lambda scope: iterator_source(scope, BATCHES).inspect_batch(lambda *pair: seen.append(pair)).extract()
    )
    assert seen == [(0, ["a", "b"]), (2, ["c"])]
    assert result.by_time() == {0: ["a", "b"], 2: ["c"]}


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster_each_worker_sees_its_own(seed: int):
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}

    def build(scope):
        mine = scope.worker.index
        return iterator_source(scope, numbers(mine)).inspect(seen[mine].append).extract()

    assert merged(run(build, seed=seed)) == all_numbers()
    assert seen == {worker: [n for _, rows in numbers(worker) for n in rows] for worker in range(3)}
