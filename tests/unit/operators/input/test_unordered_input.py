"""`unordered_input`: records from outside the dataflow, at any time covered by a capability."""

from __future__ import annotations

import pytest

from framework.errors import CapabilityInvalid, GraphError, TimeNotCovered
from framework.launch.execute import execute
from framework.simulation.cluster import SimulatedCluster
from operators import Extracted, Probe, UnorderedInput, unordered_input
from tests.unit.operators.cluster import SEEDS, merged


def test_times_by_turns():
    def main(worker):
        probe = Probe()
        with worker.dataflow() as scope:
            input, now, stream = unordered_input(scope)
            result = stream.probe(probe).extract()
        later = now.delayed(5)
        input.send(later, "e")
        input.send(now, "a")
        now.downgrade(3)
        input.send_batch(now, ["c", "d"])
        worker.step()
        worker.step()
        assert probe.frontier() == (3,)
        now.drop()
        input.send(later, "f")
        later.drop()
        return result

    [result] = execute(main)
    assert result.by_time() == {0: ["a"], 3: ["c", "d"], 5: ["e", "f"]}


def test_without_the_right_capability():
    def main(worker):
        with worker.dataflow() as scope:
            input, now, stream = unordered_input(scope)
            stream.extract()
        now.downgrade(2)
        with pytest.raises(TimeNotCovered):
            now.delayed(1)
        now.drop()
        with pytest.raises(CapabilityInvalid):
            input.send(now, "late")

    execute(main)


def test_while_the_dataflow_is_being_built():
    def main(worker):
        with worker.dataflow() as scope:
            input, now, stream = unordered_input(scope, name="late")
            stream.extract()
            with now, pytest.raises(GraphError, match="input 'late' was sent records while its dataflow was being"):
                input.send(now, "early")

    execute(main)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    results: list[Extracted[int]] = []

    def program(worker):
        with worker.dataflow() as scope:
            handle, capability, stream = unordered_input(scope)
            input: UnorderedInput[int] = handle
            results.append(stream.exchange(lambda n: n).extract())
        held = [capability.delayed(epoch) for epoch in (4, 2, 3, 0)]
        capability.drop()
        for each in held:
            yield
            with each:
                input.send(each, worker.index)

    SimulatedCluster(workers=3, seed=seed).run(program)
    assert merged(results) == {epoch: [0, 1, 2] for epoch in (0, 2, 3, 4)}
