"""`binary`, `binary_frontier`, `binary_notify`: logic of one's own on two inputs."""

from __future__ import annotations

from typing import Any

import pytest

from framework.dataflow.pact import Broadcast, Exchange
from framework.errors import GraphError
from framework.launch.execute import example, execute
from operators import Input, iterator_source, to_stream
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_binary_tells_its_inputs_apart():
    def logic(left, right, output):
        for sign, input in (1, left), (-1, right):
            for capability, rows in input:
                output.session(capability).give_container([sign * row for row in rows])

    def build(scope):
        left = iterator_source(scope, [(0, [1]), (1, [2])])
        return left.binary(iterator_source(scope, [(1, [3])]), logic).extract()

    by_time = example(build).by_time()
    assert {time: sorted(rows) for time, rows in by_time.items()} == {0: [1], 1: [-3, 2]}


def test_streams_of_two_scopes():
    def build(scope):
        with scope.region("inner") as inner:
            to_stream(scope, [1]).enter(inner).binary(to_stream(scope, [2]), lambda left, right, output: None)

    with pytest.raises(GraphError, match="cannot be used in scope 'inner'"):
        example(build)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pact_for_each_input(seed: int):
    def logic(left, right, output):
        for side, input in ("left", left), ("right", right):
            for capability, rows in input:
                output.session(capability).give_container([(side, row) for row in rows])

    def build(scope):
        stream = iterator_source(scope, numbers(scope.worker.index))
        return stream.binary(stream, logic, pact=Exchange(lambda n: n), other_pact=Broadcast()).extract()

    for worker, result in enumerate(run(build, seed=seed)):
        everything = all_numbers().items()
        expected = {
            time: [("left", n) for n in rows if n % 3 == worker] + [("right", n) for n in rows]
            for time, rows in everything
        }
        assert merged([result]) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_binary_frontier_sees_both_frontiers(seed: int):
    """Records of the left wait until the right has passed their time, and then carry what the right said of it."""

    def constructor(capability, activator):
        capability.drop()
        waiting: list[tuple[Any, list[int]]] = []
        rules: dict[Any, int] = {}

        def logic(left, right, output):
            for capability, rows in right:
                rules[capability.time] = rows[0]
            for capability, rows in left:
                waiting.append((capability.retain(), rows))
            for held, rows in list(waiting):
                if not right.frontier.less_equal(held.time):
                    waiting.remove((held, rows))
                    with held:
                        output.session(held).give_container([row * rules[held.time] for row in rows])

        return logic

    def build(scope):
        rules = iterator_source(scope, [(epoch, [epoch + 2]) for epoch in range(5)] if scope.worker.index == 1 else [])
        left = iterator_source(scope, numbers(scope.worker.index))
        return left.binary_frontier(rules, constructor, other_pact=Broadcast()).extract()

    expected = {time: [n * (time + 2) for n in rows] for time, rows in all_numbers().items()}
    assert merged(run(build, seed=seed)) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_binary_notify_waits_for_both(seed: int):
    """A join within each time."""

    def build(scope):
        sides: dict[Any, tuple[list[int], list[int]]] = {}

        def logic(left, right, output, notificator):
            for side, input in enumerate((left, right)):
                for capability, rows in input:
                    sides.setdefault(capability.time, ([], []))[side].extend(rows)
                    notificator.notify_at(capability.retain())
            for capability in notificator:
                left_rows, right_rows = sides.pop(capability.time)
                both = [(a, b) for a in left_rows for b in right_rows if a % 100 == b % 100]
                output.session(capability).give_container(both)

        left = iterator_source(scope, numbers(scope.worker.index) if scope.worker.index == 0 else [])
        right = iterator_source(scope, numbers(scope.worker.index) if scope.worker.index == 2 else [])
        pact = Exchange(lambda n: n % 100)
        return left.binary_notify(right, logic, pact=pact, other_pact=pact).extract()

    expected = {epoch: [(n, n + 2000) for n in rows] for epoch, rows in numbers(0)}
    assert merged(run(build, seed=seed)) == expected


@pytest.mark.parametrize("slower", [0, 1])
def test_binary_notify_waits_for_the_slower_input(slower: int):
    told: list[Any] = []

    def logic(left, right, output, notificator):
        for input in (left, right):
            for capability, _ in input:
                notificator.notify_at(capability.retain())
        told.extend(capability.time for capability in notificator)

    def main(worker):
        inputs = Input[str](), Input[str]()
        with worker.dataflow() as scope:
            left, right = (input.stream(scope) for input in inputs)
            left.binary_notify(right, logic).extract()
        inputs[0].send("a")
        inputs[1].send("b")
        inputs[1 - slower].close()
        for _ in range(5):
            worker.step()
        assert told == []
        inputs[slower].advance_to(1)
        for _ in range(5):
            worker.step()
        assert told == [0]

    execute(main)


def test_binary_notify_at_times_without_records():
    told: list[Any] = []

    def logic(left, right, output, notificator):
        for input in (left, right):
            for _ in input:
                pass
        told.extend(capability.time for capability in notificator)

    def build(scope):
        to_stream(scope, [1]).binary_notify(to_stream(scope, [2]), logic, notify_at=[2, 1]).extract()

    example(build)
    assert told == [1, 2]
