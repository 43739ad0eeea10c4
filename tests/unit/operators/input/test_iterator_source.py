"""`iterator_source`: a stream from an iterator that says at which times its records are."""

from __future__ import annotations

from typing import Any

import pytest

from framework.errors import GraphError, OperatorFailed, TimeWentBackwards
from framework.launch.execute import example
from framework.progress.order import Product
from operators import Probe, iterator_source
from operators.errors import RecordNotPair
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_times_repeat_skip_and_may_be_empty():
    batches = [(0, ["a"]), (0, ["b"]), (4, []), (7, iter(["c", "d"]))]
    assert example(lambda scope: iterator_source(scope, batches).extract()).by_time() == {0: ["a", "b"], 7: ["c", "d"]}


def test_in_a_nested_scope():
    def build(scope):
        with scope.iterative() as inner:
            return iterator_source(inner, [(Product(0, 2), ["a"]), (Product(1, 2), ["b"])]).extract()

    assert example(build).by_time() == {Product(0, 2): ["a"], Product(1, 2): ["b"]}


def test_times_that_go_back():
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: iterator_source(scope, [(3, ["a"]), (2, ["b"])], name="days").extract())
    assert isinstance(caught.value.__cause__, TimeWentBackwards)
    assert str(caught.value.__cause__) == (
        "operator 'days' is at time 3, and its iterator went back to 2; sort what it gives by time"
    )


@pytest.mark.parametrize("bad", [7, ("a",), (1, 2, 3)])
def test_what_is_not_a_pair(bad: Any):
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: iterator_source(scope, [bad]).extract())
    assert isinstance(caught.value.__cause__, RecordNotPair)
    assert str(caught.value.__cause__) == (
        f"operator 'iterator_source' expects pairs (time, records), and its iterator gave {bad!r}"
    )


@pytest.mark.parametrize("bad", ["soon", 1.5, Product(0, 0), -1, None])
def test_what_is_not_a_time(bad: Any):
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: iterator_source(scope, [(bad, ["a"])]).extract())
    assert isinstance(caught.value.__cause__, GraphError)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    assert (
        merged(run(lambda scope: iterator_source(scope, numbers(scope.worker.index)).extract(), seed=seed))
        == all_numbers()
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ahead", [0, 1, 4])
def test_a_probe_holds_it_back(ahead: int, seed: int):
    """It sends no epoch before all but the allowed ones are complete at the probe; and no wake-up is lost."""
    sent: list[int] = []

    def build(scope):
        probe = Probe()

        def check(epoch, rows):
            assert not probe.less_than(epoch - ahead)
            sent.append(epoch)

        source = iterator_source(scope, numbers(scope.worker.index, epochs=12), probe=probe, epochs_ahead_max=ahead)
        return source.inspect_batch(check).exchange(lambda n: n).probe(probe).extract()

    assert merged(run(build, seed=seed)) == all_numbers(epochs=12)
    assert sorted(sent) == sorted(3 * list(range(12)))


def test_a_probe_in_a_nested_scope():
    def build(scope):
        with scope.iterative() as inner:
            iterator_source(inner, [], probe=Probe())

    with pytest.raises(GraphError, match="operator 'iterator_source' can wait for a probe in a dataflow's outermost"):
        example(build)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_pauses_while_links_are_congested_and_goes_on_afterwards(seed: int):
    def build(scope):
        return iterator_source(scope, numbers(scope.worker.index, epochs=30)).exchange(lambda n: n).extract()

    assert merged(run(build, seed=seed, congested_frames=0)) == all_numbers(epochs=30)
