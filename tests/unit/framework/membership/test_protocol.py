"""What one member does while others join and leave: a situation, and the effects that follow from it."""

from __future__ import annotations

import pytest

from framework.errors import PeerLost, PeerRefused, ProtocolError
from framework.membership.effects import (
    Effect,
    HoldRecords,
    Log,
    NotifyJoined,
    NotifyWish,
    Part,
    RefuseLeave,
    RerouteHeld,
    Send,
    SendHeld,
    SetAudience,
    SetDeadline,
    SetMembers,
)
from framework.membership.members import Members, WorkerId
from framework.membership.messages import (
    Admit,
    Ask,
    Done,
    Enlist,
    Enlisted,
    Farewell,
    First,
    Forget,
    Grant,
    Join,
    Joined,
    Leaving,
    Linked,
    Ready,
    Refuse,
    Released,
    Roster,
    Settled,
    Wish,
)
from framework.membership.protocol import Member
from framework.progress.order import EPOCH_MAX
from framework.wire.messages import Built, Goodbye, Lost, Message
from tests.unit.framework.membership.still_dataflows import StillDataflows

ZERO, ONE, TWO, JOINER = map(WorkerId, (0, 1, 2, 7))
HOME = ("c", 1)
ADDRESSES = {ZERO: ("a", 0), ONE: ("a", 1), TWO: ("a", 2)}


def member(worker: WorkerId, workers: int = 3, dataflows: StillDataflows | None = None) -> Member:
    """One of the workers that a job began with."""
    members = Members.dense(workers)
    addresses = {worker: ADDRESSES[worker] for worker in members.workers}
    participation = tuple((founder, 0, EPOCH_MAX) for founder in members.workers)
    return Member(worker, members, members.workers, addresses, participation, (), dataflows or StillDataflows())


def after(core: Member, sender: WorkerId, *messages: Message) -> list[Effect]:
    """What follows from messages, and from the end of the step that they came in."""
    effects = [effect for message in messages for effect in core.receive(sender, message) or ()]
    return effects + core.end_step(settled=True)


# Joining, as the server


def test_a_server_asks_for_a_turn_for_its_guest():
    assert member(ONE).receive(JOINER, Join(HOME)) == [
        Log("worker 7 asks to join through worker 1"),
        Send(ZERO, Ask(ONE, JOINER)),
    ]


def test_the_coordinator_serves_at_once_when_it_is_nobodys_turn():
    """What it says to itself does not go out."""
    core = member(ZERO)
    roster = Roster(0, tuple(ADDRESSES.items()), (ZERO, ONE, TWO), (ZERO, ONE, TWO))
    assert core.receive(JOINER, Join(HOME)) == [
        Log("worker 7 asks to join through worker 0"),
        Send(JOINER, roster),
        SetDeadline(JOINER),
    ]
    assert core.turns.current == Ask(ZERO, JOINER)


def test_an_id_that_was_used_is_refused():
    reason = "this job has, or had, a worker 2, and no number is used twice; use a higher process number"
    assert member(ONE).receive(TWO, Join(HOME)) == [Send(TWO, Refuse(reason)), Part(TWO)]


def test_a_join_from_its_turn_to_its_end():
    core = member(ZERO, workers=2)
    core.receive(JOINER, Join(HOME))
    assert core.receive(JOINER, Linked()) == []
    admitted = core.end_step(settled=False)
    assert [admitted[0], admitted[1]] == [SetAudience((ONE, JOINER)), Send(ONE, Admit(JOINER, HOME, 1))]
    assert core.receive(JOINER, Ready()) == [Send(ONE, Enlist(JOINER))]
    assert core.end_step(settled=False) == [], "something is uncounted"
    assert core.end_step(settled=True) == [SetMembers(Members(1, (ZERO, ONE, JOINER))), HoldRecords(JOINER)]
    assert core.receive(ONE, Enlisted(JOINER)) == [Send(JOINER, Enlist(JOINER))]
    assert core.receive(JOINER, Enlisted(JOINER)) == []
    assert core.end_step(settled=False) == [
        Log("worker 7 has joined"),
        SendHeld(),
        NotifyJoined(JOINER),
        Send(ONE, Joined(JOINER)),
        Send(JOINER, Joined(JOINER)),
    ]
    assert core.receive(JOINER, Settled(JOINER)) == []
    assert core.turns.current == Ask(ZERO, JOINER), "worker 1 may have yet to hear of it"
    assert core.engaged
    assert core.receive(ONE, Settled(JOINER)) == []
    assert core.turns.current is None


def test_a_joiner_that_dies_is_forgotten_by_all_before_the_turn_ends():
    dataflows = StillDataflows()
    core = member(ZERO, workers=2, dataflows=dataflows)
    core.receive(JOINER, Join(HOME))
    after(core, JOINER, Linked())
    assert dataflows.lent
    assert core.receive(JOINER, Lost("reset")) == [
        Log("worker 7 does not join: it went away: reset"),
        Send(JOINER, Refuse("it went away: reset")),
        Part(JOINER),
        Send(ONE, Forget(JOINER)),
        Part(JOINER),
    ]
    assert not dataflows.lent
    assert core.end_step(settled=True) == [SetAudience((ONE,)), Part(JOINER)]
    assert core.turns.current == Ask(ZERO, JOINER), "worker 1 has yet to forget it"
    assert core.receive(ONE, Settled(JOINER)) == []
    assert core.turns.current is None


def test_a_joiner_that_dies_when_all_have_enlisted_it_is_forgotten_as_well():
    core = member(ZERO, workers=2)
    core.receive(JOINER, Join(HOME))
    after(core, JOINER, Linked())
    after(core, JOINER, Ready())
    core.receive(ONE, Enlisted(JOINER))
    assert Send(ONE, Forget(JOINER)) in (core.receive(JOINER, Lost("reset")) or [])
    assert core.end_step(settled=True) == [
        SetAudience((ONE,)),
        SetMembers(Members(2, (ZERO, ONE))),
        RerouteHeld(),
        Part(JOINER),
    ]


def test_a_joiner_whose_death_comes_in_with_its_answer_is_forgotten_as_well():
    core = member(ZERO, workers=2)
    core.receive(JOINER, Join(HOME))
    after(core, JOINER, Linked())
    after(core, JOINER, Ready())
    core.receive(ONE, Enlisted(JOINER))
    effects = after(core, JOINER, Enlisted(JOINER), Lost("reset"))
    assert Send(ONE, Forget(JOINER)) in effects
    assert Send(ONE, Joined(JOINER)) not in effects


def test_who_has_joined_is_not_given_up():
    core = member(ZERO, workers=2)
    core.receive(JOINER, Join(HOME))
    after(core, JOINER, Linked())
    after(core, JOINER, Ready())
    core.receive(ONE, Enlisted(JOINER))
    after(core, JOINER, Enlisted(JOINER))
    assert core.give_up(JOINER, "it took too long") == []
    assert core.receive(JOINER, Lost("reset")) is None, "a member that is lost is not this protocol's to bear"


def test_a_joiner_that_takes_too_long_is_forgotten_also_while_it_is_enlisted():
    core = member(ZERO, workers=2)
    core.receive(JOINER, Join(HOME))
    after(core, JOINER, Linked())
    after(core, JOINER, Ready())
    core.end_step(settled=True)
    given_up = core.give_up(JOINER, "it took too long")
    assert Send(JOINER, Refuse("it took too long")) in given_up
    assert Send(ONE, Forget(JOINER)) in given_up
    assert core.engaged, "until all have forgotten it"
    core.end_step(settled=True)
    core.receive(ONE, Settled(JOINER))
    assert (core.engaged, core.turns.current, core.members.workers) == (False, None, (ZERO, ONE))


def test_nobody_is_let_in_at_the_end():
    core = member(ONE)
    core.receive(JOINER, Join(HOME))
    refused = [Send(JOINER, Refuse("the job is about to end")), Part(JOINER)]
    assert core.close() == [*refused, Send(ZERO, Done(JOINER))]
    assert core.receive(JOINER, Join(HOME)) == refused


# Joining, as a bystander


def test_a_bystander_admits_and_enlists():
    dataflows = StillDataflows()
    core = member(TWO, dataflows=dataflows)
    assert core.receive(ONE, Admit(JOINER, HOME, 1)) == [
        SetAudience((ZERO, ONE, JOINER)),
        Send(JOINER, First(((0, 3),))),
    ]
    assert dataflows.starters == [(1, 1)]
    assert [core.starters(dataflow) for dataflow in (0, 1)] == [3, 4]
    assert after(core, ONE, Enlist(JOINER)) == [
        SetMembers(Members(1, (ZERO, ONE, TWO, JOINER))),
        HoldRecords(JOINER),
        Send(ONE, Enlisted(JOINER)),
    ]
    assert core.receive(ONE, Joined(JOINER)) == [SendHeld(), NotifyJoined(JOINER), Send(ONE, Settled(JOINER))]
    assert core.audience == (ZERO, ONE, JOINER)


def test_a_bystander_forgets():
    dataflows = StillDataflows()
    core = member(TWO, dataflows=dataflows)
    core.receive(ONE, Admit(JOINER, HOME, 1))
    assert after(core, ONE, Forget(JOINER)) == [SetAudience((ZERO, ONE)), Part(JOINER), Send(ONE, Settled(JOINER))]
    assert dataflows.starters == [(1, 1), (1, -1)]


def test_a_bystander_that_has_lost_the_joiner_does_not_say_that_it_has_enlisted_it():
    core = member(TWO)
    core.receive(ONE, Admit(JOINER, HOME, 1))
    assert core.receive(JOINER, Lost("reset")) == [Part(JOINER)]
    assert after(core, ONE, Enlist(JOINER)) == [
        SetMembers(Members(1, (ZERO, ONE, TWO, JOINER))),
        HoldRecords(JOINER),
    ]


def test_a_bystander_that_loses_the_joiner_once_it_has_enlisted_it_waits_for_what_the_server_says():
    def enlisted() -> Member:
        core = member(TWO)
        core.receive(ONE, Admit(JOINER, HOME, 1))
        after(core, ONE, Enlist(JOINER))
        assert core.receive(JOINER, Lost("reset")) == [Part(JOINER)]
        return core

    assert after(enlisted(), ONE, Forget(JOINER)) == [
        SetAudience((ZERO, ONE)),
        SetMembers(Members(2, (ZERO, ONE, TWO))),
        RerouteHeld(),
        Part(JOINER),
        Send(ONE, Settled(JOINER)),
    ]
    with pytest.raises(PeerLost, match="worker 2 lost worker 7: reset"):
        enlisted().receive(ONE, Joined(JOINER))


# Leaving


def test_a_leave_from_its_turn_to_the_last_word():
    core = member(TWO, dataflows=StillDataflows(quiet=True))
    assert core.leave() == [Send(ZERO, Ask(TWO, TWO))]
    assert after(core, ZERO, Grant(TWO)) == [
        Send(ZERO, Leaving(1)),
        Send(ONE, Leaving(1)),
        SetAudience((ZERO, ONE)),
        SetMembers(Members(1, (ZERO, ONE))),
    ]
    assert after(core, ZERO, Released()) == []
    assert after(core, ONE, Released()) == [Send(ZERO, Farewell()), Send(ONE, Farewell())]
    assert after(core, ZERO, Farewell()) == []
    assert after(core, ONE, Farewell()) == [Send(ZERO, Done(TWO))]


def test_a_member_lets_another_leave():
    dataflows = StillDataflows()
    core = member(ZERO, dataflows=dataflows)
    core.turns.current = Ask(TWO, TWO)
    assert core.receive(TWO, Leaving(1)) == []
    assert core.end_step(settled=True) == [
        SetAudience((ONE, TWO)),
        SetMembers(Members(1, (ZERO, ONE))),
        Send(TWO, Released()),
    ]
    assert dataflows.starters == [(1, -1)], "the leaver has built one dataflow, and starts no other"
    assert core.receive(TWO, Farewell()) == [Send(TWO, Farewell()), SetAudience((ONE,)), Log("worker 2 has left")]
    assert core.engaged, "the leaver still listens"
    assert core.receive(TWO, Goodbye()) is None, "which is for others to hear, too"
    assert not core.engaged


def test_when_the_coordinator_leaves_the_next_one_grants_turns():
    core = member(ONE)
    assert core.receive(TWO, Ask(TWO, TWO)) == [], "it does not know yet"
    after(core, ZERO, Leaving(1))
    assert core.receive(ZERO, Farewell()) == [Send(ZERO, Farewell()), SetAudience((TWO,)), Log("worker 0 has left")]
    assert core.receive(ZERO, Done(ZERO)) == [Send(TWO, Grant(TWO))]


def test_a_farewell_out_of_the_blue_is_a_broken_peer():
    with pytest.raises(ProtocolError, match="worker 2 says farewell and was not leaving"):
        member(ONE).receive(TWO, Farewell())


def test_the_last_worker_cannot_leave():
    with pytest.raises(PeerRefused, match="the last worker cannot leave"):
        member(ZERO, workers=1).leave()


def test_who_became_the_last_while_it_waited_gives_its_turn_back():
    core = member(ONE, workers=2)
    core.leave()
    after(core, ZERO, Leaving(1))
    core.receive(ZERO, Farewell())
    assert core.receive(ZERO, Ask(ONE, ONE)) == []
    assert core.receive(ZERO, Done(ZERO)) == [RefuseLeave("the last worker cannot leave; stop the job instead")]
    assert core.turns.current is None


def test_who_leaves_turns_its_guests_away():
    core = member(TWO)
    core.receive(JOINER, Join(HOME))
    core.leave()
    refused = [Send(JOINER, Refuse("worker 2 is about to leave; join through another")), Part(JOINER)]
    assert (core.receive(ZERO, Grant(TWO)) or [])[:3] == [*refused, Send(ZERO, Done(JOINER))]
    assert core.receive(JOINER, Join(HOME)) == refused


def test_a_turn_that_was_withdrawn_is_not_taken():
    core = member(TWO)
    core.leave()
    assert core.withdraw() == [Send(ZERO, Done(TWO))]
    assert core.receive(ZERO, Grant(TWO)) == []


def test_a_wish_is_heard_by_all():
    core = member(ONE)
    assert core.wish() == [Send(ZERO, Wish(ONE)), NotifyWish(ONE), Send(TWO, Wish(ONE))]


def test_other_messages_are_for_others():
    core = member(ONE)
    assert core.receive(ZERO, Built(0, b"f")) is None
    assert core.receive(ZERO, Lost("reset")) is None, "a member that is lost is not this protocol's to bear"
