"""`sink`: the end of a stream."""

from __future__ import annotations

from typing import Any

import pytest

from framework.dataflow.pact import Exchange
from framework.launch.execute import example
from operators import iterator_source
from tests.unit.operators.cluster import SEEDS, all_numbers, numbers, run


def test_it_sees_containers_and_frontiers():
    seen: list[Any] = []

    def logic(input):
        for capability, rows in input:
            seen.append((capability.time, rows))
        if not input.frontier.frontier():
            seen.append("end")

    example(lambda scope: iterator_source(scope, [(0, ["a"]), (2, ["b"])]).sink(logic))
    assert seen == [(0, ["a"]), (2, ["b"]), "end"]


@pytest.mark.parametrize("seed", SEEDS)
def test_with_a_pact(seed: int):
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}

    def build(scope):
        def logic(input):
            for _, rows in input:
                seen[scope.worker.index].extend(rows)

        iterator_source(scope, numbers(scope.worker.index)).sink(logic, pact=Exchange(lambda n: 1))

    run(build, seed=seed)
    everything = [n for rows in all_numbers().values() for n in rows]
    assert (seen[0], sorted(seen[1]), seen[2]) == ([], sorted(everything), [])
