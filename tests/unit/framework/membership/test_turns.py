"""Turns: one at a time, in the order of asking, and across a change of the coordinator."""

from __future__ import annotations

from framework.membership.effects import Send
from framework.membership.members import WorkerId
from framework.membership.messages import Ask, Grant, Queued
from framework.membership.turns import Turns

ZERO, ONE, TWO, SEVEN, EIGHT = map(WorkerId, (0, 1, 2, 7, 8))


def ask_all(turns: Turns, *asks: Ask) -> list[Send]:
    return [send for ask in asks for send in turns.ask(ask)]


def test_one_after_the_other():
    turns = Turns(coordinating=True)
    assert ask_all(turns, Ask(ONE, SEVEN), Ask(TWO, EIGHT), Ask(TWO, TWO)) == [
        Send(ONE, Grant(SEVEN)),
        Send(TWO, Queued(EIGHT, 1)),
        Send(TWO, Queued(TWO, 2)),
    ]
    assert turns.done(Ask(ONE, SEVEN)) == [Send(TWO, Grant(EIGHT))]
    assert turns.done(Ask(TWO, EIGHT)) == [Send(TWO, Grant(TWO))]


def test_a_turn_that_is_no_longer_wanted_is_skipped():
    turns = Turns(coordinating=True)
    ask_all(turns, Ask(ONE, SEVEN), Ask(ONE, EIGHT), Ask(TWO, TWO))
    assert turns.done(Ask(ONE, EIGHT)) == [], "the turn of another is not over"
    assert turns.done(Ask(ONE, SEVEN)) == [Send(TWO, Grant(TWO))]


def test_the_end_of_a_join_is_not_that_of_the_same_workers_leave():
    turns = Turns(coordinating=True)
    ask_all(turns, Ask(ONE, SEVEN), Ask(SEVEN, SEVEN))
    assert turns.done(Ask(ONE, SEVEN)) == [Send(SEVEN, Grant(SEVEN))]


def test_the_next_coordinator_keeps_what_it_was_asked_before_it_knew():
    turns = Turns(coordinating=False)
    assert turns.ask(Ask(TWO, EIGHT)) == []
    assert turns.coordinate(Ask(ZERO, ZERO)) == []
    assert turns.done(Ask(ZERO, ZERO)) == [Send(TWO, Grant(EIGHT))]


def test_who_leaves_passes_on_what_it_was_asked():
    turns = Turns(coordinating=True)
    ask_all(turns, Ask(ZERO, ZERO), Ask(ONE, SEVEN), Ask(TWO, TWO))
    assert turns.hand_over(ONE) == [Send(ONE, Ask(ONE, SEVEN)), Send(ONE, Ask(TWO, TWO))]
    assert turns.hand_over(ONE) == [], "they are passed on once, although it hands over after every step"
    assert turns.done(Ask(ZERO, ZERO)) == []


def test_nobody_gets_a_turn_once_they_are_closed():
    turns = Turns(coordinating=True)
    turns.closed = True
    assert turns.ask(Ask(ONE, SEVEN)) == []
    assert turns.current is None
