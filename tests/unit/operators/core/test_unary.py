"""`unary`, `unary_frontier`, `unary_notify`: logic of one's own on one input."""

from __future__ import annotations

from typing import Any

import pytest

from framework.dataflow.pact import Exchange
from framework.errors import CapabilityInvalid, OperatorFailed, TimeNotCovered
from framework.launch.execute import example
from operators import iterator_source, to_stream
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_unary_sees_containers():
    seen: list[tuple[Any, list[str]]] = []

    def logic(input, output):
        for capability, rows in input:
            seen.append((capability.time, rows))
            output.session(capability).give(len(rows))

    result = example(lambda scope: iterator_source(scope, [(0, ["a", "b"]), (1, ["c"])]).unary(logic).extract())
    assert seen == [(0, ["a", "b"]), (1, ["c"])]
    assert result.by_time() == {0: [2], 1: [1]}


@pytest.mark.parametrize("seed", SEEDS)
def test_unary_with_a_pact(seed: int):
    def logic(input, output):
        for capability, rows in input:
            output.session(capability).give_container(rows)

    def build(scope):
        return iterator_source(scope, numbers(scope.worker.index)).unary(logic, pact=Exchange(lambda n: n)).extract()

    results = run(build, seed=seed)
    assert merged(results) == all_numbers()
    assert [{n % 3 for n in result.rows()} for result in results] == [{0}, {1}, {2}]


def test_a_message_s_capability_does_not_outlive_the_activation():
    kept: list[Any] = []

    def logic(input, output):
        for capability, _rows in input:
            for old in kept:
                output.session(old).give("late")
            kept.append(capability)

    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: iterator_source(scope, [(0, [1]), (1, [2])]).unary(logic).extract())
    assert isinstance(caught.value.__cause__, CapabilityInvalid)


def test_unary_frontier_runs_whenever_the_frontier_moves():
    seen: list[tuple[Any, ...]] = []

    def constructor(capability, activator):
        capability.drop()

        def logic(input, output):
            for _ in input:
                pass
            seen.append(input.frontier.frontier())

        return logic

    batches = [(2, ["a"]), (5, ["b"])]
    example(lambda scope: iterator_source(scope, batches).unary_frontier(constructor).extract())
    moves = [frontier for index, frontier in enumerate(seen) if index == 0 or frontier != seen[index - 1]]
    assert moves == [(0,), (2,), (5,), ()]


@pytest.mark.parametrize("seed", SEEDS)
def test_unary_frontier_holds_the_frontier_with_its_capability(seed: int):
    """Each worker adds up what comes to it, and sends the sum at the last epoch."""

    def constructor(capability, activator):
        capability.downgrade(9)
        total = 0

        def logic(input, output):
            nonlocal total
            for _, rows in input:
                total += sum(rows)
            if not input.frontier.frontier() and capability.held:
                with capability:
                    output.session(capability).give(total)

        return logic

    def build(scope):
        return iterator_source(scope, numbers(scope.worker.index)).unary_frontier(constructor).extract()

    sums = [sum(n for _, rows in numbers(worker) for n in rows) for worker in range(3)]
    assert [result.by_time() for result in run(build, seed=seed)] == [{9: [total]} for total in sums]


def test_unary_notify_tells_of_complete_times_in_order():
    told: list[Any] = []

    def logic(input, output, notificator):
        for capability, rows in input:
            notificator.notify_at(capability.retain())
            for row in rows:
                notificator.notify_at(capability.delayed(row))
        for capability in notificator:
            told.append(capability.time)
            output.session(capability).give("complete")

    result = example(lambda scope: iterator_source(scope, [(0, [7, 4]), (4, [6])]).unary_notify(logic).extract())
    assert told == [0, 4, 6, 7]
    assert result.by_time() == {time: ["complete"] for time in told}


def test_unary_notify_at_times_without_records():
    told: list[Any] = []

    def logic(input, output, notificator):
        for _ in input:
            pass
        told.extend(capability.time for capability in notificator)

    example(lambda scope: to_stream(scope, [1]).unary_notify(logic, notify_at=[3, 0]).extract())
    assert told == [0, 3]


def test_unary_notify_at_an_earlier_time():
    def logic(input, output, notificator):
        for capability, _ in input:
            notificator.notify_at(capability.delayed(1))

    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: iterator_source(scope, [(2, [1])]).unary_notify(logic).extract())
    assert isinstance(caught.value.__cause__, TimeNotCovered)


@pytest.mark.parametrize("seed", SEEDS)
def test_unary_notify_waits_for_all_workers(seed: int):
    """When a time is complete, the worker has all records of it, from wherever they came."""

    def build(scope):
        gathered: dict[Any, list[int]] = {}

        def logic(input, output, notificator):
            for capability, rows in input:
                gathered.setdefault(capability.time, []).extend(rows)
                notificator.notify_at(capability.retain())
            for capability in notificator:
                output.session(capability).give(tuple(sorted(gathered.pop(capability.time))))

        stream = iterator_source(scope, numbers(scope.worker.index))
        return stream.unary_notify(logic, pact=Exchange(lambda n: 0)).extract()

    assert merged(run(build, seed=seed)) == {time: [tuple(rows)] for time, rows in all_numbers().items()}
