"""Inputs and outputs: containers, their order, and what is counted."""

from __future__ import annotations

from typing import Any

from framework.dataflow import handle as handles
from framework.dataflow.pact import Pipeline
from framework.events import Event, OperatorScheduled
from framework.progress.location import Target
from tests.unit.framework.dataflow.taps import Catch, Tap, settle, worker_alone


def containers_of(worker: Any, tap: Tap) -> list[tuple[Any, list[Any]]]:
    """What the tap's output passes on, container by container."""
    seen: list[tuple[Any, list[Any]]] = []
    tap.output.pushers.append(lambda time, container: seen.append((time, list(container))))  # type: ignore[call-overload]
    return seen


def test_single_records_are_gathered_and_kept_in_order_with_containers():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        catch = Catch(scope, tap.outlet)
    seen = containers_of(worker, tap)
    session = tap.output.session(tap.capability)
    with tap.capability.delayed(2) as later:
        other = tap.output.session(later)
        session.give(1)
        session.give(2)
        other.give(3)
        session.give(4)
        session.give_container([5, 6])
        session.give_container([])
        session.give(7)
    settle([worker], rounds=2)
    assert seen == [(0, [1, 2]), (2, [3]), (0, [4]), (0, [5, 6]), (0, [7])]
    assert catch.rows == [(0, 1), (0, 2), (2, 3), (0, 4), (0, 5), (0, 6), (0, 7)]


def test_a_container_is_passed_on_when_it_is_full():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
    seen = containers_of(worker, tap)
    session = tap.output.session(tap.capability)
    for number in range(handles.ROWS_PER_CONTAINER + 1):
        session.give(number)
    assert [(time, len(rows)) for time, rows in seen] == [(0, handles.ROWS_PER_CONTAINER)]
    assert tap.output.buffered() == (0, 1)


def test_records_given_under_a_capability_that_is_dropped_at_once_are_still_counted():
    """What is gathered when the capability goes leaves in the same batch."""
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        catch = Catch(scope, tap.outlet)
    settle([worker], rounds=2)
    tap.output.session(tap.capability).give("last")
    tap.close()
    settle([worker], rounds=4)
    assert catch.rows == [(0, "last")]
    assert worker.installed_dataflows() == []


def test_what_is_pushed_from_outside_is_counted_at_the_next_step():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        builder = scope.operator("does not read")
        builder.input(tap.outlet, Pipeline())
        builder.build(lambda _: lambda: None)
    settle([worker], rounds=2)
    tap.send("a", "b")
    worker.step()
    root = worker.dataflows()[0]
    assert dict(root.ledger().done.items()) == {(root.compiled.ids[Target(2, 0)], 0): 2}


def test_messages_that_are_left_wait_for_the_next_activation():
    worker = worker_alone()
    taken: list[list[Any]] = []
    with worker.dataflow() as scope:
        tap = Tap(scope)
        builder = scope.operator("one at a time")
        input = builder.input(tap.outlet, Pipeline())

        def run() -> None:
            for _, rows in input:
                taken.append(rows)
                builder.activator.activate()
                break

        builder.build(lambda _: run)
    tap.send(1)
    tap.send(2)
    worker.step()
    assert taken == [[1]]
    worker.step()
    assert taken == [[1], [2]]


def test_a_message_wakes_its_operator_and_only_it():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        Catch(scope, tap.outlet)
        Catch(scope, Tap(scope, "silent").outlet)
    settle([worker], rounds=2)
    ran: list[str] = []

    def note(_: int, __: float, event: Event) -> None:
        if isinstance(event, OperatorScheduled):
            ran.append(event.path)

    worker.events.subscribe(note)
    tap.send("x")
    worker.step()
    assert ran == ["0.1", "0.2"]


def test_one_record_that_nobody_listens_to_is_nobodys():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
    tap.send("into the void")
    settle([worker], rounds=2)
    assert worker.progress_states()[0].pointstamps == {(0, 0): 1}
    tap.close()
    settle([worker], rounds=3)
    assert worker.installed_dataflows() == []
