"""`probe`: a frontier, seen from outside."""

from __future__ import annotations

from typing import Any

import pytest

from framework.errors import GraphError
from framework.launch.execute import example, execute
from framework.simulation.cluster import SimulatedCluster
from operators import Input, Probe, to_stream
from tests.unit.operators.cluster import SEEDS


def test_it_follows_the_stream_to_its_end():
    def main(worker):
        words, probe = Input[str](), Probe()
        with worker.dataflow() as scope:
            words.stream(scope).probe(probe)
        words.advance_to(3)
        worker.step_while(lambda: probe.less_than(3))
        assert (probe.less_than(3), probe.less_equal(3), probe.less_than(4)) == (False, True, True)
        assert (probe.frontier(), probe.done()) == ((3,), False)
        words.close()
        worker.step_while(lambda: not probe.done())
        assert (probe.frontier(), probe.less_equal(10**9)) == ((), False)

    execute(main)


def test_two_streams_are_as_far_as_the_slower():
    def main(worker):
        left, right, probe = Input[str](), Input[str](), Probe()
        with worker.dataflow() as scope:
            left.stream(scope).probe(probe)
            right.stream(scope).probe(probe)
        left.advance_to(7)
        right.advance_to(2)
        worker.step_while(lambda: probe.less_than(2))
        assert probe.frontier() == (2,)
        right.close()
        worker.step_while(lambda: probe.less_than(7))
        assert (probe.frontier(), probe.done()) == ((7,), False)

    execute(main)


def test_records_pass():
    assert example(lambda scope: to_stream(scope, ["a"]).probe(Probe()).extract()).by_time() == {0: ["a"]}


def test_a_probe_that_watches_nothing():
    probe = Probe()
    for look in (probe.done, probe.frontier, lambda: probe.less_than(1), lambda: probe.less_equal(1)):
        with pytest.raises(GraphError, match="this probe watches no stream yet"):
            look()


def test_when_moved_is_called_once():
    called: list[str] = []

    def main(worker):
        words, probe = Input[str](), Probe()
        with worker.dataflow() as scope:
            words.stream(scope).probe(probe)
        worker.step()
        worker.step()
        called.clear()
        probe.when_moved(lambda: called.append("moved"))
        words.advance_to(1)
        worker.step_while(lambda: probe.less_than(1))
        words.advance_to(2)
        worker.step_while(lambda: probe.less_than(2))
        assert called == ["moved"]

    execute(main)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_waits_for_all_workers(seed: int):
    """No worker sees an epoch complete before all have sent theirs."""
    sent: dict[int, int] = {0: 0, 1: 0, 2: 0}
    seen: list[tuple[Any, int]] = []

    def program(worker):
        input, probe = Input[int](), Probe()
        with worker.dataflow() as scope:
            input.stream(scope).exchange(lambda n: n).probe(probe)
        for epoch in range(1, 6):
            input.send(worker.index)
            input.advance_to(epoch)
            sent[worker.index] = epoch
            yield
            [least] = probe.frontier()
            seen.append((least, min(sent.values())))

    SimulatedCluster(workers=3, seed=seed).run(program)
    assert len(seen) == 15
    assert all(least <= slowest for least, slowest in seen), seen
