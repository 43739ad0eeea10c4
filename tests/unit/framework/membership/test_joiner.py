"""The joiner's side of a join: what it waits for, and what it then does."""

from __future__ import annotations

import pytest

from framework.errors import DataflowMismatch, GraphError, PeerRefused, ProtocolError
from framework.membership.effects import EnterPhase, Log, Phase, Reach, Send
from framework.membership.inheritance import Inheritance
from framework.membership.joiner import Joiner
from framework.membership.members import Members, WorkerId
from framework.membership.messages import (
    Enlist,
    Enlisted,
    First,
    Join,
    Joined,
    JoinState,
    Linked,
    Missing,
    Queued,
    Ready,
    Refuse,
    Roster,
    ScopeState,
    Settled,
    Want,
)
from framework.progress.subgraph import ProgressState

SERVER, OTHER, ME = map(WorkerId, (0, 1, 7))
HOME = ("c", 1)
ADDRESSES = {SERVER: ("a", 1), OTHER: ("b", 1)}
ROSTER = Roster(4, tuple(ADDRESSES.items()), (SERVER,), (SERVER, OTHER))
STATE = ScopeState(0, ((1, 5, 2),), (), ((SERVER, 3), (OTHER, 4)))
TOLD = JoinState(1, 2, ((0, b"f"),), ((0, 3),), (("0.1", 0, 5),), ((SERVER, 0, 99), (OTHER, 0, 99), (ME, 1, 99)))


def linked() -> Joiner:
    joiner = Joiner(ME, SERVER, HOME)
    joiner.begin()
    joiner.receive(SERVER, ROSTER)
    return joiner


def test_links_are_there_before_the_server_hears_of_them():
    joiner = Joiner(ME, SERVER, HOME)
    assert joiner.begin() == [EnterPhase(Phase.ASKING), Send(SERVER, Join(HOME))]
    assert joiner.receive(SERVER, Queued(ME, 2)) == [Log("worker 7 waits its turn to join: 2 before it")]
    assert joiner.receive(SERVER, ROSTER) == [
        EnterPhase(Phase.LINKING),
        Reach(ADDRESSES),
        EnterPhase(Phase.LEARNING),
        Send(SERVER, Linked()),
    ]
    assert joiner.members == Members(5, (SERVER, OTHER, ME))


def test_it_learns_which_numbers_were_used():
    joiner = Joiner(ME, SERVER, HOME)
    joiner.begin()
    joiner.receive(SERVER, Roster(4, tuple(ADDRESSES.items()), (SERVER,), (SERVER, OTHER, WorkerId(5))))
    assert (joiner.founders, joiner.spent) == ((SERVER,), (SERVER, OTHER, 5))


def test_it_wants_what_is_neither_in_the_state_nor_comes_directly():
    joiner = linked()
    assert joiner.receive(SERVER, STATE) == []
    assert joiner.receive(SERVER, TOLD) == []
    assert joiner.receive(OTHER, First(((0, 6),))) == [
        EnterPhase(Phase.FILLING),
        Send(SERVER, Want(((0, OTHER, 4, 6),))),
    ]
    assert joiner.receive(SERVER, Missing(0, OTHER, 5, ())) == []
    assert joiner.receive(SERVER, Missing(0, OTHER, 4, ((1, 5, -1),))) == [EnterPhase(Phase.BUILDING)]


def test_it_wants_nothing_if_nothing_is_between():
    joiner = linked()
    for sender, message in (OTHER, First(((0, 4),))), (SERVER, STATE):
        assert joiner.receive(sender, message) == []
    assert joiner.receive(SERVER, TOLD) == [EnterPhase(Phase.FILLING), EnterPhase(Phase.BUILDING)]


def test_it_wants_all_of_a_dataflow_that_its_server_has_yet_to_build():
    joiner = linked()
    for sender, message in (SERVER, STATE), (SERVER, TOLD):
        joiner.receive(sender, message)
    assert joiner.receive(OTHER, First(((0, 4), (1, 9), (2, 3)))) == [
        EnterPhase(Phase.FILLING),
        Send(SERVER, Want(((2, OTHER, 0, 3),))),
    ]


def test_a_batch_that_would_be_seen_twice_is_a_broken_peer():
    joiner = linked()
    joiner.receive(SERVER, STATE)
    joiner.receive(SERVER, TOLD)
    with pytest.raises(ProtocolError, match="worker 1 will repeat batches 2 to 3 of channel 0"):
        joiner.receive(OTHER, First(((0, 2),)))


def test_it_joins_when_its_server_says_so_and_not_when_the_members_have_enlisted_it():
    joiner = linked()
    for sender, message in (SERVER, STATE), (SERVER, TOLD), (OTHER, First(((0, 4),))):
        joiner.receive(sender, message)
    assert joiner.receive(SERVER, Enlist(ME)) is None, "it has not asked"
    assert joiner.ready() == [EnterPhase(Phase.ENLISTING), Send(SERVER, Ready())]
    assert joiner.receive(OTHER, Joined(OTHER)) is None, "that is another"
    assert joiner.receive(SERVER, Enlist(ME)) == [Send(SERVER, Enlisted(ME))]
    assert joiner.phase is Phase.ENLISTING
    assert joiner.receive(SERVER, Joined(ME)) == [Send(SERVER, Settled(ME)), EnterPhase(Phase.JOINED)]


def test_a_refusal_ends_it():
    with pytest.raises(PeerRefused, match="worker 0 did not let worker 7 join: full"):
        Joiner(ME, SERVER, HOME).receive(SERVER, Refuse("full"))


def test_who_founds_a_job_inherits_nothing():
    nothing = Inheritance(ME)
    assert nothing.initial_time("0.1", 0, 0) == 0
    assert nothing.progress(0) == (None, [])
    nothing.check_fingerprint(0, b"any")
    nothing.check_built(0)


def test_what_a_joiner_builds_on():
    joiner = linked()
    for sender, message in (
        (SERVER, STATE),
        (OTHER, First(((0, 5),))),
        (SERVER, TOLD),
        (SERVER, Missing(0, OTHER, 4, ())),
    ):
        joiner.receive(sender, message)
    inheritance = joiner.inheritance
    assert [inheritance.initial_time(path, 0, 0) for path in ("0.1", "0.2", "1.1")] == [5, None, 0]
    assert inheritance.progress(0) == (ProgressState({(1, 5): 2}, {}, {SERVER: 3, OTHER: 4}, 0), [(OTHER, 4, ())])
    assert inheritance.progress(1) == (ProgressState({}, {}, {}, 0), []), "its dataflow is complete"
    assert inheritance.progress(2) == (None, []), "its dataflow is not built yet"
    assert [inheritance.starters(dataflow) for dataflow in (0, 1)] == [2, 3]
    with pytest.raises(DataflowMismatch, match="this program does not fit the job that worker 7 was to join"):
        inheritance.check_fingerprint(0, b"g")
    with pytest.raises(GraphError, match="worker 7 joined a job of 1 dataflows and built 0"):
        inheritance.check_built(0)
