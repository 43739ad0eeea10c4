"""Whose turn it is to join or leave."""

from __future__ import annotations

from typing import Any

from framework.membership import WorkerId
from framework.rescale.turns import Turns
from framework.wire.rescale import Ask, Grant, Queued

ZERO, ONE, TWO, NINE = (WorkerId(number) for number in (0, 1, 2, 9))


def test_turns_are_granted_one_at_a_time_in_the_order_of_asking():
    sent: list[Any] = []
    turns = Turns(lambda peer, message: sent.append((peer, message)), coordinating=True)
    turns.ask(Ask(ZERO, NINE))
    turns.ask(Ask(ONE, ONE))
    turns.done(Ask(ZERO, NINE))
    assert sent == [(ZERO, Grant(NINE)), (ONE, Queued(ONE, 1)), (ONE, Grant(ONE))]


def test_at_the_end_of_a_job_nobody_is_let_in_but_who_waits_to_leave_does():
    sent: list[Any] = []
    turns = Turns(lambda peer, message: sent.append((peer, message)), coordinating=True)
    turns.ask(Ask(ONE, ONE))
    turns.ask(Ask(ZERO, NINE))
    turns.ask(Ask(TWO, TWO))
    turns.closed = True
    turns.done(Ask(ONE, ONE))
    turns.done(Ask(TWO, TWO))
    granted = [message for _, message in sent if isinstance(message, Grant)]
    assert (granted, turns.current) == ([Grant(ONE), Grant(TWO)], None)
