"""`branch` and `branch_when`: one stream as two."""

from __future__ import annotations

import pytest

from framework.launch.execute import example
from operators import iterator_source
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run

BATCHES = [(0, [1, 2]), (1, [1, 2]), (2, [3])]


def test_branch_by_time_and_record():
    def build(scope):
        branches = iterator_source(scope, BATCHES).branch(lambda time, n: n > time)
        return branches.rejected.extract(), branches.accepted.extract()

    no, yes = example(build)
    assert (no.by_time(), yes.by_time()) == ({1: [1]}, {0: [1, 2], 1: [2], 2: [3]})


def test_branch_when_by_time():
    def build(scope):
        no, yes = iterator_source(scope, BATCHES).branch_when(lambda time: time == 1)
        return no.extract(), yes.extract()

    no, yes = example(build)
    assert (no.by_time(), yes.by_time()) == ({0: [1, 2], 2: [3]}, {1: [1, 2]})


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    def build(scope):
        no, yes = iterator_source(scope, numbers(scope.worker.index)).branch(lambda time, n: n % 2)
        early, late = no.branch_when(lambda time: time >= 3)
        return yes.extract(), early.extract(), late.extract()

    yes, early, late = zip(*run(build, seed=seed), strict=True)
    assert merged(list(yes)) == {t: [n for n in rows if n % 2] for t, rows in all_numbers().items()}
    assert merged(list(early)) == {t: [n for n in rows if n % 2 == 0] for t, rows in all_numbers().items() if t < 3}
    assert merged(list(late)) == {t: [n for n in rows if n % 2 == 0] for t, rows in all_numbers().items() if t >= 3}
