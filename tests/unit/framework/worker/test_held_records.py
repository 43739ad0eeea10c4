"""Records for a joiner that all have enlisted, from then until it has joined or is forgotten.

Worker 0 is looked at; the test has worker 1 say what the joiner's server says.
"""

from __future__ import annotations

import pytest

from framework.dataflow.pact import Broadcast, Deal, Exchange, Gather, Pact
from framework.errors import PeerLost
from framework.membership.members import WorkerId
from framework.membership.messages import Admit, Enlist, Forget, Joined, RescaleMessage
from framework.simulation.network import Network
from framework.wire.messages import Data
from framework.worker import held_records
from tests.unit.framework.dataflow.taps import Catch, Tap, settle, workers

JOINER = WorkerId(2)


class Pair:
    """Two workers that have enlisted a joiner."""

    def __init__(self, pact: Pact) -> None:
        self.network = Network()
        self.peers = workers(2, self.network)
        self.taps: list[Tap] = []
        self.catches: list[Catch] = []
        for peer in self.peers:
            with peer.dataflow() as scope:
                self.taps.append(Tap(scope))
                self.catches.append(Catch(scope, self.taps[-1].outlet, pact))
        settle(self.peers, self.network)
        self.say(Admit(JOINER, ("there", 1), 1), Enlist(JOINER))

    def say(self, *messages: RescaleMessage) -> None:
        for receiver, sender in zip(self.peers, reversed(self.peers), strict=True):
            for message in messages:
                sender.transport.send(receiver.id, message)
            sender.transport.flush()
        self.run()

    def run(self) -> None:
        """Until nothing moves any more between the two."""
        for _ in range(10):
            for peer in self.peers:
                peer.step()
            for link in self.network.busy():
                while JOINER not in link and self.network.links[link]:
                    self.network.deliver(link)

    def sent_to_the_joiner(self) -> list[object]:
        under_way = self.network.under_way()
        return [message.container for _, to, message in under_way if to == JOINER and isinstance(message, Data)]

    def caught(self) -> list[list[int]]:
        """What each worker has received, once no more can come."""
        for tap in self.taps:
            tap.close()
        self.run()
        assert [catch.told[-1] for catch in self.catches] == [(), ()]
        return [[row for _, row in catch.rows] for catch in self.catches]


def test_they_are_sent_in_order_when_it_has_joined():
    pair = Pair(Exchange(int))
    pair.taps[0].send(2, 3, 5)
    pair.taps[0].send(8)
    pair.run()
    assert pair.sent_to_the_joiner() == []
    assert [(time, rows) for _, time, rows in pair.peers[0].held()] == [(0, [2, 5]), (0, [8])]
    assert not pair.peers[0].has_joined(JOINER)
    pair.say(Joined(JOINER))
    assert pair.peers[0].has_joined(JOINER)
    assert pair.sent_to_the_joiner() == [[2, 5], [8]]
    pair.taps[0].send(11)
    pair.run()
    assert pair.sent_to_the_joiner() == [[2, 5], [8], [11]]
    assert pair.peers[0].held() == []


def test_they_go_where_they_would_have_gone_without_it_when_it_is_forgotten():
    pair = Pair(Exchange(int))
    pair.taps[0].send(2, 3, 5)
    pair.taps[1].send(8)
    pair.run()
    pair.say(Forget(JOINER))
    assert pair.caught() == [[3, 2, 8], [5]]
    assert pair.sent_to_the_joiner() == []


def test_slices_that_were_dealt_to_it_are_dealt_again():
    pair = Pair(Deal())
    pair.taps[0].send(*range(6))
    pair.run()
    assert [rows for _, _, rows in pair.peers[0].held()] == [[4, 5]]
    pair.say(Forget(JOINER))
    assert sorted(row for rows in pair.caught() for row in rows) == [*range(6)]


def test_of_what_all_get_its_copies_are_dropped():
    pair = Pair(Broadcast())
    pair.taps[0].send(7)
    pair.run()
    assert [rows for _, _, rows in pair.peers[0].held()] == [[7]]
    pair.say(Forget(JOINER))
    pair.taps[0].send(8)
    pair.run()
    assert pair.caught() == [[7, 8], [7, 8]]


def test_what_was_meant_for_it_alone_ends_the_job():
    pair = Pair(Gather(JOINER))
    pair.taps[0].send(7)
    pair.run()
    with pytest.raises(PeerLost, match="operator 'tap' sent records to worker 2 by its number, and it did not join"):
        pair.say(Forget(JOINER))


def test_sources_pause_while_many_are_held(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(held_records, "RECORDS_MAX", 2)
    pair = Pair(Exchange(int))
    pair.taps[0].send(2, 5)
    pair.run()
    assert not pair.peers[0].congested()
    pair.taps[0].send(8)
    pair.run()
    assert pair.peers[0].congested()
    pair.say(Forget(JOINER))
    assert not pair.peers[0].congested()
