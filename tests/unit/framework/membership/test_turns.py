"""Turns: one at a time, in the order of asking, and across a change of the coordinator."""

from __future__ import annotations

from typing import Any

from framework.membership.members import WorkerId
from framework.membership.messages import Ask, Grant, Queued
from framework.membership.turns import Turns

ZERO, ONE, TWO, SEVEN, EIGHT = map(WorkerId, (0, 1, 2, 7, 8))


class Turned(Turns):
    def __init__(self, *, coordinating: bool) -> None:
        self.sent: list[tuple[WorkerId, Any]] = []
        super().__init__(lambda peer, message: self.sent.append((peer, message)), coordinating=coordinating)

    def said(self) -> list[tuple[WorkerId, Any]]:
        said, self.sent = self.sent, []
        return said


def test_one_after_the_other():
    turns = Turned(coordinating=True)
    turns.ask(Ask(ONE, SEVEN))
    turns.ask(Ask(TWO, EIGHT))
    turns.ask(Ask(TWO, TWO))
    assert turns.said() == [(ONE, Grant(SEVEN)), (TWO, Queued(EIGHT, 1)), (TWO, Queued(TWO, 2))]
    turns.done(Ask(ONE, SEVEN))
    assert turns.said() == [(TWO, Grant(EIGHT))]
    turns.done(Ask(TWO, EIGHT))
    assert turns.said() == [(TWO, Grant(TWO))]


def test_a_turn_that_is_no_longer_wanted_is_skipped():
    turns = Turned(coordinating=True)
    for ask in (Ask(ONE, SEVEN), Ask(ONE, EIGHT), Ask(TWO, TWO)):
        turns.ask(ask)
    turns.said()
    turns.done(Ask(ONE, EIGHT))
    assert turns.said() == [], "the turn of another is not over"
    turns.done(Ask(ONE, SEVEN))
    assert turns.said() == [(TWO, Grant(TWO))]


def test_the_end_of_a_join_is_not_that_of_the_same_workers_leave():
    turns = Turned(coordinating=True)
    turns.ask(Ask(ONE, SEVEN))
    turns.ask(Ask(SEVEN, SEVEN))
    turns.done(Ask(ONE, SEVEN))
    assert turns.said()[-1] == (SEVEN, Grant(SEVEN))


def test_the_next_coordinator_keeps_what_it_was_asked_before_it_knew():
    turns = Turned(coordinating=False)
    turns.ask(Ask(TWO, EIGHT))
    assert (TWO, Grant(EIGHT)) not in turns.said()
    turns.coordinate(Ask(ZERO, ZERO))
    assert turns.said() == []
    turns.done(Ask(ZERO, ZERO))
    assert turns.said() == [(TWO, Grant(EIGHT))]


def test_who_leaves_passes_on_what_it_was_asked():
    turns = Turned(coordinating=True)
    for ask in (Ask(ZERO, ZERO), Ask(ONE, SEVEN), Ask(TWO, TWO)):
        turns.ask(ask)
    turns.said()
    turns.hand_over(ONE)
    assert turns.said() == [(ONE, Ask(ONE, SEVEN)), (ONE, Ask(TWO, TWO))]
    turns.done(Ask(ZERO, ZERO))
    assert turns.said() == []


def test_nobody_gets_a_turn_once_they_are_closed():
    turns = Turned(coordinating=True)
    turns.closed = True
    turns.ask(Ask(ONE, SEVEN))
    assert turns.current is None
    assert (ONE, Grant(SEVEN)) not in turns.said()
