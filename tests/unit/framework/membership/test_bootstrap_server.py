"""The server's side of a join: what it says to whom, and in which order."""

from __future__ import annotations

from framework.membership.bootstrap_server import BootstrapServer, JoinStage
from framework.membership.effects import Send
from framework.membership.members import WorkerId
from framework.membership.messages import Admit, Enlist, JoinState, Linked, Missing, Ready, Refuse, Roster, Want
from framework.wire.messages import Progress
from tests.unit.framework.membership.still_dataflows import STATE, StillDataflows

ZERO, ONE, JOINER = map(WorkerId, (0, 1, 7))
ROSTER = Roster(0, ((ZERO, ("a", 1)), (ONE, ("b", 1))), (ZERO, ONE), (ZERO, ONE))
HOME = ("c", 1)
PARTICIPATION = ((ZERO, 0, 99), (ONE, 0, 99), (JOINER, 1, 99))
TOLD = JoinState(1, 2, ((0, b"f"),), ((0, 3),), (("0.1", 0, 5),), PARTICIPATION)


def server_of(dataflows: StillDataflows) -> BootstrapServer:
    return BootstrapServer(dataflows, JOINER, HOME, ROSTER)


def admitting(dataflows: StillDataflows) -> BootstrapServer:
    server = server_of(dataflows)
    server.begin()
    server.receive(Linked())
    server.lent_is_told(PARTICIPATION)
    return server


def test_it_lends_when_the_joiner_has_links_and_says_so_to_nobody_itself():
    """The batches that announce what is lent are the dataflows'."""
    dataflows = StillDataflows()
    server = server_of(dataflows)
    assert server.begin() == [Send(JOINER, ROSTER)]
    assert not dataflows.lent
    assert server.receive(Linked()) == []
    assert server.stage is JoinStage.LENDING
    assert server.lent == dataflows.lent == (("0.1", 0, 5),)


def test_members_are_told_to_admit_before_the_joiner_is_told_anything():
    server = server_of(StillDataflows())
    server.begin()
    server.receive(Linked())
    assert server.lent_is_told(PARTICIPATION) == [
        Send(ZERO, Admit(JOINER, HOME, 1)),
        Send(ONE, Admit(JOINER, HOME, 1)),
        Send(JOINER, STATE),
        Send(JOINER, TOLD),
    ]


def test_batches_of_a_worker_that_has_left_are_passed_on_unasked():
    """Nobody else can tell the joiner."""
    gone = WorkerId(3)
    server = server_of(StillDataflows(heard=[(gone, Progress(0, 8, ((1, 5, -1),))), (ONE, Progress(0, 4, ()))]))
    server.begin()
    server.receive(Linked())
    *_, state, passed_on, told = server.lent_is_told(PARTICIPATION)
    assert [state, passed_on, told] == [
        Send(JOINER, STATE),
        Send(JOINER, Missing(0, gone, 8, ((1, 5, -1),))),
        Send(JOINER, TOLD),
    ]


def test_what_the_joiner_lacks_is_passed_on_when_it_comes():
    server = admitting(StillDataflows(heard=[(ONE, Progress(0, 4, ((1, 5, -1),)))]))
    assert server.receive(Want(((0, ONE, 4, 6),))) == [Send(JOINER, Missing(0, ONE, 4, ((1, 5, -1),)))]
    assert server.receive(Ready()) == [], "it is not, while something is missing"
    assert server.record(ONE, Progress(0, 5, ())) == [Send(JOINER, Missing(0, ONE, 5, ()))]
    assert server.record(ONE, Progress(0, 6, ())) == [], "this one comes directly"


def test_the_joiner_is_in_when_everybody_has_enlisted_it_and_it_is_still_there():
    server = admitting(StillDataflows())
    assert server.receive(Ready()) == [Send(worker, Enlist(JOINER)) for worker in (ZERO, ONE)]
    assert server.enlisted(ONE) == []
    assert server.enlisted(ZERO) == [Send(JOINER, Enlist(JOINER))]
    assert not server.complete
    assert server.enlisted(JOINER) == []
    assert server.complete


def test_who_gives_a_join_up_takes_back_what_it_lent():
    dataflows = StillDataflows()
    server = admitting(dataflows)
    assert server.give_up("too slow") == [Send(JOINER, Refuse("too slow"))]
    assert not dataflows.lent
