"""Containers that wait for their time to be complete."""

from __future__ import annotations

import pytest

from framework.dataflow.capability import Capability
from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.pact import Pipeline
from framework.dataflow.stash import Stash
from framework.errors import OperatorFailed
from framework.progress.order import Time
from tests.unit.framework.dataflow.taps import Catch, Tap, settle, worker_alone


def keep(inputs: list[InputHandle], output: OutputHandle, stash: Stash[list[str]], log: list[object]) -> None:
    """Send what is complete, each container by itself."""
    for input in inputs:
        for capability, rows in input:
            stash.add(capability, rows)
    for complete, containers in stash.complete(*inputs):
        log.append((complete.time, containers))
        output.session(complete).give_container([row for rows in containers for row in rows])


def test_containers_come_out_by_time_once_all_inputs_are_past_it():
    worker, log = worker_alone(), list[object]()
    with worker.dataflow() as scope:
        taps = Tap(scope), Tap(scope)
        builder = scope.operator("keeps")
        inputs = [builder.input(tap.outlet, Pipeline()) for tap in taps]
        output, outlet = builder.output()
        stash = Stash[list[str]]()
        builder.build(lambda _: lambda: keep(inputs, output, stash, log))
        catch = Catch(scope, outlet)
    left, right = taps
    left.send("a")
    settle([worker], rounds=3)
    left.send("b")
    left.advance(2)
    left.send("c")
    left.close()
    settle([worker], rounds=3)
    assert log == []
    right.send("d")
    right.advance(1)
    settle([worker], rounds=6)
    assert log == [(0, [["a"], ["b"], ["d"]])]
    right.close()
    settle([worker], rounds=6)
    assert log[1:] == [(2, [["c"]])]
    assert catch.rows == [(0, "a"), (0, "b"), (0, "d"), (2, "c")]
    assert worker.installed_dataflows() == []


def test_one_capability_is_held_per_time_also_of_those_that_are_handed_over():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        builder = scope.operator("delays")
        input = builder.input(tap.outlet, Pipeline())
        output, outlet = builder.output()
        stash = Stash[list[str]]()
        taken: list[tuple[Time, list[list[str]]]] = []

        def logic() -> None:
            for capability, rows in input:
                stash.add(capability.delayed(7), rows)
                stash.add(capability, rows)
                stash.add(capability.delayed(7), rows)
            taken.extend((held.time, kept) for held, kept in stash.take(lambda time: time == 0))

        builder.build(lambda _: logic)
        Catch(scope, outlet)
    tap.send("a")
    settle([worker], rounds=3)
    assert taken == [(0, [["a"]])]
    assert output.held == {7: 1}
    stash.clear()
    assert output.held == {}


def test_a_failure_names_the_time_that_was_complete():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        builder = scope.operator("fails")
        input = builder.input(tap.outlet, Pipeline())
        builder.output()
        stash = Stash[list[str]]()

        def logic() -> None:
            for capability, rows in input:
                stash.add(capability, rows)
            for held, _ in stash.complete(input):
                assert isinstance(held, Capability)
                raise KeyError

        builder.build(lambda _: logic)
    tap.advance(4)
    tap.send("x")
    tap.advance(5)
    with pytest.raises(OperatorFailed, match=r"operator 'fails' \(0.2\) failed on worker 0 at time 4"):
        settle([worker], rounds=6)
