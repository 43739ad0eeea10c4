"""`source`: a stream from logic of its own."""

from __future__ import annotations

import gc
import warnings

from framework.launch.execute import execute
from framework.simulation.cluster import SimulatedCluster
from operators import source


def countdown(capability, activator):
    def logic(output):
        if not capability.held:
            return
        output.session(capability).give(capability.time)
        if capability.time == 3:
            capability.drop()
        else:
            capability.downgrade(capability.time + 1)
            activator.activate_after(0.001)

    return logic


def test_it_runs_when_it_asked_to():
    def main(worker):
        with worker.dataflow() as scope:
            return source(scope, countdown).extract()

    [result] = execute(main)
    assert result.by_time() == {time: [time] for time in range(4)}


def test_a_dataflow_that_is_dropped_takes_its_capability_along():
    """Nothing is left to the garbage collector, which would warn."""

    def program(worker):
        with worker.dataflow() as scope:
            source(scope, lambda capability, activator: lambda output: None)
        yield
        worker.drop_dataflow(0)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SimulatedCluster(workers=2, seed=0).run(program)
        gc.collect()
    assert caught == []
