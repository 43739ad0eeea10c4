"""Actions that wait for their moment."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from framework.worker.agenda import Agenda


class Log:
    """Actions that say that they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def action(self, name: str) -> Callable[[], None]:
        return lambda: self.ran.append(name)


@pytest.fixture
def log() -> Log:
    return Log()


def test_timers_run_when_due_in_order_of_their_time(log: Log):
    agenda = Agenda()
    for when_s in (3.0, 1.0, 2.0, 5.0, 0.5):
        agenda.at(when_s, log.action(f"{when_s}"))
    assert agenda.due_at_s() == 0.5
    agenda.run(0.4, congested=False)
    assert log.ran == []
    agenda.run(2.0, congested=False)
    assert log.ran == ["0.5", "1.0", "2.0"]
    assert agenda.due_at_s() == 3.0
    agenda.run(9.0, congested=False)
    assert log.ran == ["0.5", "1.0", "2.0", "3.0", "5.0"]
    assert agenda.due_at_s() is None


def test_timers_of_one_time_run_in_the_order_in_which_they_were_set(log: Log):
    agenda = Agenda()
    for name in "abc":
        agenda.at(1.0, log.action(name))
    agenda.run(1.0, congested=False)
    assert log.ran == ["a", "b", "c"]


def test_what_waits_for_clear_links_waits_while_they_are_not(log: Log):
    agenda = Agenda()
    for name in "ab":
        agenda.when_clear(log.action(name))
    agenda.run(0.0, congested=True)
    assert (log.ran, agenda.waits_for_clear()) == ([], True)
    agenda.run(0.0, congested=False)
    assert (log.ran, agenda.waits_for_clear()) == (["a", "b"], False)


def test_what_waits_again_while_it_runs_waits_for_the_next_time(log: Log):
    agenda = Agenda()

    def again() -> None:
        log.ran.append("again")
        agenda.when_clear(again)

    agenda.when_clear(again)
    agenda.run(0.0, congested=False)
    agenda.run(0.0, congested=False)
    assert log.ran == ["again", "again"]


def test_wishes_of_other_threads_are_all_granted_in_order_and_are_urgent(log: Log):
    agenda = Agenda()
    assert not agenda.urgent()

    def wish() -> None:
        for name in "abc":
            agenda.from_thread(log.action(name))

    thread = threading.Thread(target=wish)
    thread.start()
    thread.join()
    assert agenda.urgent()
    agenda.run(0.0, congested=True)
    assert (log.ran, agenda.urgent()) == (["a", "b", "c"], False)
