"""The leaver's side of a leave: each word waits for what must come before it."""

from __future__ import annotations

from framework.membership.effects import Send
from framework.membership.leaver import Leaver, LeaveStep
from framework.membership.members import WorkerId
from framework.membership.messages import Done, Farewell, Leaving, Released
from tests.unit.framework.membership.still_dataflows import StillDataflows

ME, ONE, TWO = map(WorkerId, (0, 1, 2))


def test_farewell_waits_until_nobody_sends_records_and_nothing_is_left():
    dataflows = StillDataflows()
    leaver = Leaver(dataflows, ME, (ONE, TWO))
    assert leaver.begin() == [Send(ONE, Leaving(1)), Send(TWO, Leaving(1))]
    dataflows.quiet = True
    assert leaver.receive(ONE, Released()) == []
    assert leaver.advance() == [], "worker 2 may still send"
    assert leaver.receive(TWO, Released()) == []
    dataflows.quiet = False
    assert leaver.advance() == [], "something has come meanwhile"
    dataflows.quiet = True
    assert leaver.advance() == [Send(ONE, Farewell()), Send(TWO, Farewell())]
    assert leaver.advance() == [], "once is enough"


def test_the_turn_is_over_when_all_have_heard_the_farewell():
    leaver = Leaver(StillDataflows(quiet=True), ME, (ONE, TWO))
    leaver.begin()
    for peer in ONE, TWO:
        leaver.receive(peer, Released())
    leaver.advance()
    assert leaver.receive(TWO, Farewell()) == []
    assert leaver.receive(ONE, Farewell()) == [Send(ONE, Done(ME))]
    assert leaver.step is LeaveStep.GONE


def test_an_answer_that_was_not_asked_for_counts_for_nothing():
    leaver = Leaver(StillDataflows(quiet=True), ME, (ONE,))
    leaver.begin()
    assert leaver.receive(ONE, Farewell()) == []
    assert leaver.step is LeaveStep.RELEASING
