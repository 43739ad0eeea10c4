"""`distribute` and `ControlInput` (`control_input`): records go where commands say, at their time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from framework.simulation.cluster import SimulatedCluster
from framework.simulation.invariants import Invariants
from framework.worker.worker import Worker
from operators import Input
from operators.input.control_input import ControlInput
from routing.commands import Noop
from tests.unit.operators.cluster import SEEDS


@pytest.mark.parametrize("seed", SEEDS)
def test_records_follow_the_commands(seed: int):
    seen: dict[int, set[int]] = {}

    def program(worker: Worker) -> Iterator[None]:
        numbers, control = Input[int](), ControlInput()
        with worker.dataflow() as scope:
            placed = numbers.stream(scope).distribute(key=int, control=control.stream(scope).broadcast(), bins=4)
            placed.inspect_time(lambda epoch, _: seen.setdefault(epoch, set()).add(worker.index))
        yield
        for epoch in range(4):
            if worker.index == 0:
                if epoch == 1:
                    assert control.map([2] * 4) == 0
                if epoch == 2:
                    assert control.send(Noop()) == 1
                if epoch == 3:
                    for bin_id in range(4):
                        control.move(bin_id, 1)
            assert control.time == epoch
            for number in range(20):
                numbers.send(number)
            numbers.advance_to(epoch + 1)
            control.advance_to(epoch + 1)
            yield
        control.close()

    cluster = SimulatedCluster(workers=3, seed=seed)
    with Invariants(cluster):
        cluster.run(program)
    assert seen == {0: {0, 1, 2}, 1: {2}, 2: {2}, 3: {1}}
