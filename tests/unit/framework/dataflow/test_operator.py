"""An operator as its scope schedules it."""

from __future__ import annotations

import pytest

from framework.dataflow.notificator import Notificator
from framework.dataflow.pact import Pipeline
from framework.errors import OperatorFailed
from framework.progress.order import Time
from tests.unit.framework.dataflow.taps import Catch, Tap, settle, worker_alone


def test_a_failure_names_operator_path_worker_and_time():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        builder = scope.operator("divides")
        input = builder.input(tap.outlet, Pipeline())

        def run() -> None:
            for _, rows in input:
                for row in rows:
                    1 / row

        builder.build(lambda _: run)
    tap.advance(3)
    tap.send(1)
    worker.step()
    tap.send(0)
    with pytest.raises(OperatorFailed) as failure:
        worker.step()
    assert str(failure.value) == "operator 'divides' (0.2) failed on worker 0 at time 3"
    assert (failure.value.operator, failure.value.path, failure.value.worker, failure.value.time) == (
        *("divides", "0.2"),
        *(0, 3),
    )
    assert isinstance(failure.value.__cause__, ZeroDivisionError)
    assert not worker.stepping


def test_a_failure_without_a_message_at_hand_names_no_time():
    worker = worker_alone()
    with worker.dataflow() as scope:
        builder = scope.operator("fails")
        builder.build(lambda _: lambda: int("x"))  # type: ignore[arg-type, return-value]
    with pytest.raises(OperatorFailed, match=r"^operator 'fails' \(0.1\) failed on worker 0$"):
        worker.step()


def test_a_failure_in_a_notification_names_its_time_and_in_a_nested_scope_its_own_operator():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        with scope.iterative() as inner:
            builder = inner.operator("waits")
            input = builder.input(inner.enter(tap.outlet), Pipeline())
            builder.output()
            notificator = Notificator(builder.operator, [input.frontier])

            def run() -> None:
                for capability, _ in input:
                    notificator.notify_at(capability.retain())
                for _ in notificator:
                    raise KeyError

            builder.build(lambda _: run)
    tap.advance(4)
    tap.send("x")
    tap.advance(5)
    with pytest.raises(OperatorFailed, match=r"operator 'waits' \(0.2.1\) failed on worker 0 at time \(4, 0\)"):
        settle([worker], rounds=6)


def test_the_logic_sees_the_frontier_that_was_propagated_for_this_round():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        catch = Catch(scope, tap.outlet)
    tap.send("a")
    tap.advance(1)
    tap.send("b")
    tap.advance(2)
    settle([worker], rounds=4)
    assert catch.rows == [(0, "a"), (1, "b")]
    assert catch.told[-1] == (2,)
    assert catch.told == sorted(catch.told)


def test_notifications_come_in_order_after_the_last_record_of_their_time():
    worker = worker_alone()
    log: list[tuple[str, Time]] = []
    with worker.dataflow() as scope:
        tap = Tap(scope)
        builder = scope.operator("sums")
        input = builder.input(tap.outlet, Pipeline())
        output, outlet = builder.output()
        notificator = Notificator(builder.operator, [input.frontier])

        def run() -> None:
            for capability, rows in input:
                log.extend(("record", capability.time) for _ in rows)
                notificator.notify_at(capability.retain())
            for complete in notificator:
                log.append(("complete", complete.time))
                output.session(complete).give(complete.time)

        builder.build(lambda _: run)
        catch = Catch(scope, outlet)
    for epoch, rows in [(0, "ab"), (2, "c"), (5, "de")]:
        tap.advance(epoch)
        tap.send(*rows)
        settle([worker], rounds=3)
    assert notificator.pending() == [5]
    tap.close()
    settle([worker], rounds=6)
    assert log == [
        *(("record", 0), ("record", 0)),
        *(("record", 2), ("complete", 0)),
        *(("record", 5), ("record", 5), ("complete", 2)),
        ("complete", 5),
    ]
    assert catch.rows == [(0, 0), (2, 2), (5, 5)]
    assert worker.installed_dataflows() == []
