"""Explorations that must find something, and one that must not."""

from __future__ import annotations

from collections.abc import Iterator

from framework.membership.members import WorkerId
from framework.simulation.actor import Role
from framework.simulation.explore import Ends, Scenario, explore
from framework.simulation.views import ScriptLog
from framework.worker.worker import Worker
from operators import Input


def feeds_one(worker: Worker, log: ScriptLog) -> Iterator[None]:
    numbers = Input[int]("numbers")

    def keep(number: int) -> None:
        log[number] += 1

    with worker.dataflow() as scope:
        numbers.stream(scope).exchange(lambda number: number).inspect(keep)
    yield
    numbers.send(worker.index)
    numbers.advance_to(1)
    yield
    numbers.close()


def holds_on(worker: Worker, log: ScriptLog) -> Iterator[None]:
    yield from feeds_one(worker, log)
    while True:
        yield


def raises(worker: Worker, log: ScriptLog) -> Iterator[None]:
    program = feeds_one(worker, log)
    next(program)
    yield
    raise ValueError("of all things")


def fine(_: Ends) -> None:
    return None


def cluster(*parts: object, **options: object) -> Scenario:
    roles = tuple(Role(WorkerId(index), part) for index, part in enumerate(parts))  # type: ignore[arg-type]
    return Scenario(roles, options.pop("judge", fine), **options)  # type: ignore[arg-type]


def test_two_workers_that_do_nothing_wrong():
    found = explore(cluster(feeds_one, feeds_one, goodbyes=True))
    assert found.broken is None, "\n".join(found.trace)
    assert found.states > 100
    assert found.ends


def test_what_a_worker_raises_is_found_by_a_shortest_way():
    found = explore(cluster(feeds_one, raises))
    assert [line.split(". ", 1)[-1].strip() for line in found.trace] == [
        "worker 1: its program goes on",
        "worker 1: ValueError: of all things",
    ]


def test_an_end_that_is_not_reached_is_found():
    found = explore(cluster(feeds_one, holds_on, goodbyes=True))
    assert str(found.broken).startswith("nobody can move, and workers [0, 1] are not done")


def test_every_end_is_judged():
    found = explore(cluster(feeds_one, judge=lambda ends: f"{len(ends)} worker is too few"))
    assert str(found.broken) == "1 worker is too few"


def test_there_is_a_bound():
    found = explore(cluster(feeds_one, feeds_one), states_max=50)
    assert str(found.broken) == "there are more than 50 states"
