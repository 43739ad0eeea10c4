"""`feedback` and `connect_loop`: loops."""

from __future__ import annotations

import pytest

from framework.errors import CycleDoesNotAdvance, GraphError
from framework.launch.execute import example
from framework.progress.order import EPOCH_MAX, Product
from framework.progress.summary import Local
from operators import feedback, iterator_source, to_stream
from tests.unit.operators.cluster import SEEDS, merged, run


def test_each_round_is_one_epoch_later():
    def build(scope):
        loop, again = feedback(scope)
        down = iterator_source(scope, [(0, [3]), (1, [1])]).concat(again)
        down.map(lambda n: n - 1).filter(lambda n: n > 0).connect_loop(loop)
        return down.extract()

    by_time = example(build).by_time()
    assert {time: sorted(rows) for time, rows in by_time.items()} == {0: [3], 1: [1, 2], 2: [1]}


def test_a_summary_of_one_s_own():
    def build(scope):
        loop, again = feedback(scope, summary=10)
        stream = to_stream(scope, [2]).concat(again)
        stream.map(lambda n: n - 1).filter(lambda n: n >= 0).connect_loop(loop)
        return stream.extract()

    assert example(build).by_time() == {0: [2], 10: [1], 20: [0]}


def test_in_an_iterative_scope_the_rounds_are_counted():
    def build(scope):
        with scope.iterative() as inner:
            loop, again = feedback(inner, summary=Local(2))
            stream = iterator_source(scope, [(4, [2])]).enter(inner).concat(again)
            stream.map(lambda n: n - 1).filter(lambda n: n >= 0).connect_loop(loop)
            return stream.extract()

    assert example(build).by_time() == {Product(4, 0): [2], Product(4, 2): [1], Product(4, 4): [0]}


def test_beyond_the_last_time_nothing_comes_round():
    def build(scope):
        loop, again = feedback(scope, summary=EPOCH_MAX)
        stream = to_stream(scope, ["a"]).concat(again)
        stream.connect_loop(loop)
        return stream.extract()

    assert example(build).by_time() == {0: ["a"], EPOCH_MAX: ["a"]}


def test_a_loop_that_nobody_connects_is_an_empty_stream():
    assert example(lambda scope: feedback(scope)[1].extract()).rows() == []


def test_a_loop_that_does_not_advance():
    def build(scope):
        loop, again = feedback(scope, summary=0)
        to_stream(scope, [1]).concat(again).connect_loop(loop)

    with pytest.raises(CycleDoesNotAdvance, match="feedback -> concat"):
        example(build)


def test_a_loop_is_connected_once():
    def build(scope):
        loop, again = feedback(scope)
        again.connect_loop(loop)
        again.connect_loop(loop)

    with pytest.raises(GraphError, match="loop 'feedback' is connected already"):
        example(build)


@pytest.mark.parametrize("seed", SEEDS)
def test_records_that_change_workers_in_each_round(seed: int):
    def build(scope):
        loop, again = feedback(scope)
        mine = [(0, [scope.worker.index * 10])]
        stream = iterator_source(scope, mine).concat(again)
        stream.map(lambda n: n + 1).filter(lambda n: n % 10 < 5).exchange(lambda n: n).connect_loop(loop)
        return stream.extract()

    assert merged(run(build, seed=seed)) == {epoch: [epoch, 10 + epoch, 20 + epoch] for epoch in range(5)}
