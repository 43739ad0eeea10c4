"""Who joins is bootstrapped and filled, who leaves is emptied and retired, one set of commands after the other."""

from __future__ import annotations

from framework.membership import WorkerId
from routing.bins import BinId
from routing.commands import Bootstrap, Instruction, Move, Retire
from routing.stewardship import Ownership, Stewardship

ZERO, ONE, TWO = WorkerId(0), WorkerId(1), WorkerId(2)


class Bins:
    """An operator that carries out at once what is commanded."""

    def __init__(self, *owners: WorkerId) -> None:
        self.owners = list(owners)
        self.eligible = set(owners)
        self.decided = -1
        self.epoch = 0

    def act(self, stewardship: Stewardship) -> list[Instruction]:
        """Ask for what is due, do it, and return it."""
        view = Ownership(self.owners, frozenset(self.eligible), self.decided)
        due = stewardship.act(self.epoch, [view])
        for instruction in due:
            match instruction:
                case Bootstrap(_, joiner):
                    self.eligible.add(joiner)
                case Retire(worker):
                    self.eligible.remove(worker)
                case Move(bin_id, worker):
                    self.owners[bin_id] = worker
        self.decided = self.epoch
        self.epoch += 1
        return due


def test_a_joiner_is_bootstrapped_and_gets_its_share():
    stewardship, bins = Stewardship(ZERO), Bins(ZERO, ONE, ZERO, ONE)
    stewardship.joined(TWO)
    assert bins.act(stewardship) == [Bootstrap(ZERO, TWO)]
    assert bins.act(stewardship) == [Move(BinId(2), TWO)]
    assert bins.act(stewardship) == []
    assert not stewardship.busy


def test_a_leaver_is_emptied_and_retired():
    stewardship, bins = Stewardship(ZERO), Bins(ZERO, ONE, ONE)
    stewardship.wishes_to_leave(ONE)
    assert bins.act(stewardship) == [Move(BinId(1), ZERO), Move(BinId(2), ZERO)]
    assert bins.act(stewardship) == [Retire(ONE)]
    assert bins.act(stewardship) == []
    assert not stewardship.busy


def test_a_wish_to_leave_that_comes_before_the_news_of_the_join_is_granted():
    stewardship, bins = Stewardship(ZERO), Bins(ZERO, ONE)
    stewardship.wishes_to_leave(TWO)
    assert bins.act(stewardship) == []
    stewardship.joined(TWO)
    assert bins.act(stewardship) == [Bootstrap(ZERO, TWO)]
    assert bins.act(stewardship) == [Retire(TWO)]
    assert not bins.act(stewardship)
    assert not stewardship.busy


def test_nothing_is_sent_before_the_last_is_decided():
    stewardship, bins = Stewardship(ZERO), Bins(ZERO, ONE)
    stewardship.joined(TWO)
    view = Ownership(bins.owners, frozenset(bins.eligible), decided=3)
    assert stewardship.act(4, [view]) == [Bootstrap(ZERO, TWO)]
    assert stewardship.act(5, [view]) == []
    assert stewardship.act(6, [Ownership(bins.owners, frozenset(bins.eligible), decided=4)]) == [Bootstrap(ZERO, TWO)]
