"""What holds a frontier back, told from what is held."""

from __future__ import annotations

from typing import Any

import pytest

from framework.dataflow.holdings import heard_of, held_here
from framework.launch.execute import execute
from framework.progress.antichain import Antichain
from framework.progress.explain import Blocker, Holding, Position, blockers, scopes_of
from framework.progress.location import Source, Target
from framework.progress.order import Product
from framework.progress.subgraph import Subgraph
from framework.worker.worker import Worker
from operators import Input, Stream


def collatz(numbers: Stream[int]) -> tuple[Stream[int], Stream[int]]:
    done, rest = numbers.branch(lambda time, number: number > 1)
    again = rest.map(lambda number: number // 2 if number % 2 == 0 else 3 * number + 1, name="next")
    return again, done


def build(worker: Worker) -> tuple[Input[int], Input[int]]:
    """Two inputs, one of them through a loop, come together."""
    first, second = Input[int]("first"), Input[int]("second")
    with worker.dataflow("two") as scope:
        looped = first.stream(scope).map(lambda n: n, name="straight").iterate(collatz)
        looped.concat(second.stream(scope)).exchange(lambda n: n).map(lambda n: n, name="last")
    return first, second


def place_of(root: Subgraph, name: str) -> Position:
    """The first input of the operator with this name, in whatever scope."""
    for path, scope in scopes_of(root).items():
        for child in scope.children():
            if child.operator.name == name:
                return Position(path, Target(int(child.path.rpartition(".")[2]), 0))
    raise AssertionError(name)


def settle(worker: Worker) -> Subgraph:
    for _ in range(200):
        worker.step()
    return worker.dataflows()[0]


def test_the_input_that_lags_is_named_with_the_way_from_it():
    def main(worker: Worker) -> tuple[list[Blocker], list[Blocker]]:
        first, second = build(worker)
        first.send(6)
        first.advance_to(5)
        second.advance_to(3)
        one = blockers(settle(worker), held_here(worker.dataflows()[0]), place_of(worker.dataflows()[0], "last"))
        second.close()
        two = blockers(settle(worker), held_here(worker.dataflows()[0]), place_of(worker.dataflows()[0], "last"))
        return one, two

    [(one, two)] = execute(main)
    [lagging] = one
    assert (lagging.holding.time, lagging.holding.count, lagging.arrives) == (3, 1, 3)
    assert isinstance(lagging.holding.place.location, Source)
    assert lagging.via == ("second", "concat", "exchange", "last")
    [through_the_loop] = two
    assert (through_the_loop.holding.time, through_the_loop.arrives) == (5, 5)
    assert through_the_loop.via[:2] == ("first", "straight")
    assert through_the_loop.via[-3:] == ("concat", "exchange", "last")


def test_within_a_loop_times_have_rounds():
    def main(worker: Worker) -> list[Blocker]:
        first, _ = build(worker)
        first.advance_to(2)
        root = settle(worker)
        return blockers(root, held_here(root), place_of(root, "next"))

    [[blocker]] = execute(main)
    assert (blocker.holding.time, blocker.arrives) == (2, Product(2, 0))


def test_records_that_wait_at_an_input_hold_it_and_what_follows():
    def main(worker: Worker) -> list[Holding]:
        _, second = build(worker)
        settle(worker)
        second.send_batch([1, 2, 3])
        second.flush()
        found = held_here(worker.dataflows()[0])
        settle(worker)
        return [holding for holding in found if isinstance(holding.place.location, Target)]

    [[waiting]] = execute(main)
    assert (waiting.time, waiting.count) == (0, 3)


@pytest.mark.parametrize("epochs", [(0, 0), (4, 9), (9, 4)])
def test_all_that_was_heard_explains_every_frontier(epochs: tuple[int, int]):
    """At every input of every scope, what is held could result in exactly the frontier that the tracker has."""

    def main(worker: Worker) -> list[tuple[Position, Any, Any]]:
        inputs, compared = build(worker), []
        for more in range(3):
            for input, epoch in zip(inputs, epochs, strict=True):
                input.send(6)
                input.advance_to(epoch + more)
            root = settle(worker)
            for path, scope in scopes_of(root).items():
                for number, location in enumerate(scope.compiled.locations):
                    if isinstance(location, Target):
                        place = Position(path, location)
                        told = Antichain(blocker.arrives for blocker in blockers(root, heard_of(root), place))
                        compared.append((place, told, Antichain(scope.ledger().tracker.frontier(number).frontier())))
        return compared

    [compared] = execute(main)
    assert len(compared) > 20
    assert [row for row in compared if row[1] != row[2]] == []
