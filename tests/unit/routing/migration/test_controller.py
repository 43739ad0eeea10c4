"""What is commanded for those that join and leave: little by little, until they have their share, or nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest

from framework.membership.members import WorkerId
from framework.progress.order import EPOCH_MAX
from routing.commands import Bootstrap, Instruction, Move, Retire
from routing.migration.controller import BINS_PER_STEP_MAX, KEYS_PER_STEP, Ownership, RescaleController

ZERO, ONE, TWO, THREE = map(WorkerId, range(4))


@dataclass(slots=True)
class Operators:
    """Operators that do as they are told, at once."""

    tables: list[list[WorkerId]]
    eligible: set[WorkerId]
    keys_per_bin: float = 1.0
    sent: list[list[Instruction]] = field(default_factory=list)

    def views(self, complete: int = EPOCH_MAX, decided: int = EPOCH_MAX) -> list[Ownership]:
        eligible = frozenset(self.eligible)
        return [Ownership(table, eligible, decided, complete, self.keys_per_bin) for table in self.tables]

    def run(self, controller: RescaleController, epochs: int = 200) -> None:
        for epoch in range(epochs):
            due = controller.act(epoch, self.views())
            if due:
                self.sent.append(due)
            for instruction in due:
                self._do(instruction)

    def _do(self, instruction: Instruction) -> None:
        match instruction:
            case Bootstrap(_, joiner):
                self.eligible.add(joiner)
            case Retire(worker):
                assert all(worker not in table for table in self.tables), "it still owns bins"
                self.eligible.discard(worker)
            case Move(bin_id, worker):
                assert worker in self.eligible, f"{worker} may not own bins"
                for table in self.tables:
                    if bin_id < len(table):
                        table[bin_id] = worker


def test_a_joiner_is_bootstrapped_and_receives_its_share():
    operators = Operators([[ZERO, ONE] * 6], {ZERO, ONE})
    controller = RescaleController(ZERO)
    controller.joined(TWO)
    assert controller.busy
    operators.run(controller)
    assert operators.sent[0] == [Bootstrap(ZERO, TWO)]
    assert Counter(operators.tables[0]) == {ZERO: 4, ONE: 4, TWO: 4}
    assert not controller.busy


def test_a_leaver_is_emptied_and_retired():
    operators = Operators([[ZERO, ONE, TWO] * 4], {ZERO, ONE, TWO})
    controller = RescaleController(ZERO)
    controller.wishes_to_leave(ONE)
    controller.wishes_to_leave(ONE)
    operators.run(controller)
    assert operators.sent[-1] == [Retire(ONE)]
    assert Counter(operators.tables[0]) == {ZERO: 6, TWO: 6}
    assert [type(one[0]) for one in operators.sent].count(Retire) == 1


def test_nobody_who_leaves_is_given_bins():
    operators = Operators([[ZERO, ONE, TWO, THREE] * 4], {ZERO, ONE, TWO, THREE})
    controller = RescaleController(ZERO)
    controller.wishes_to_leave(ONE)
    controller.wishes_to_leave(TWO)
    operators.run(controller)
    moved = [instruction.worker for one in operators.sent for instruction in one if isinstance(instruction, Move)]
    assert not {ONE, TWO} & set(moved)
    assert Counter(operators.tables[0]) == {ZERO: 8, THREE: 8}


def test_who_joins_and_wants_to_leave_at_once_gets_no_bins():
    operators = Operators([[ZERO, ONE] * 4], {ZERO, ONE})
    controller = RescaleController(ZERO)
    controller.joined(TWO)
    controller.wishes_to_leave(TWO)
    operators.run(controller)
    assert operators.sent == [[Bootstrap(ZERO, TWO)], [Retire(TWO)]]


def test_operators_of_different_numbers_of_bins():
    operators = Operators([[ZERO, ONE] * 4, [ZERO, ONE] * 16], {ZERO, ONE})
    controller = RescaleController(ZERO)
    controller.joined(TWO)
    controller.wishes_to_leave(ONE)
    operators.run(controller)
    assert all(ONE not in table and TWO in table for table in operators.tables)
    assert ONE not in operators.eligible


def test_the_next_step_waits_until_the_last_is_complete():
    operators = Operators([[ZERO, ONE] * 64], {ZERO, ONE, TWO})
    controller = RescaleController(ZERO)
    controller.joined(TWO)
    assert controller.act(7, operators.views())
    assert controller.act(8, operators.views(complete=7)) == []
    assert controller.act(9, operators.views(complete=8))


def test_a_bootstrap_waits_until_what_was_sent_is_decided_and_for_nothing_else():
    """The joiner holds records back, so nothing may be complete before it has its routing state."""
    operators = Operators([[ZERO, ONE] * 64], {ZERO, ONE, TWO})
    controller = RescaleController(ZERO)
    controller.joined(TWO)
    assert controller.act(7, operators.views())
    controller.joined(THREE)
    assert controller.act(8, operators.views(complete=0, decided=6)) == []
    assert controller.act(9, operators.views(complete=0, decided=7)) == [Bootstrap(ZERO, THREE)]
    assert controller.act(10, operators.views(complete=0, decided=9)) == [Bootstrap(ZERO, THREE)], "it was refused"


@pytest.mark.parametrize(
    ("keys_per_bin", "bins"), [(0.0, 16), (1.0, 16), (KEYS_PER_STEP / 4, 4), (KEYS_PER_STEP * 9, 1)]
)
def test_a_step_moves_about_so_many_keys(keys_per_bin: float, bins: int):
    operators = Operators([[ZERO] * 256], {ZERO, ONE}, keys_per_bin)
    controller = RescaleController(ZERO)
    controller.wishes_to_leave(ZERO)
    assert len(controller.act(0, operators.views())) == bins <= BINS_PER_STEP_MAX


def test_who_has_gone_waits_for_nothing():
    controller = RescaleController(ZERO)
    controller.joined(TWO)
    controller.wishes_to_leave(ONE)
    for worker in (ONE, TWO):
        controller.gone(worker)
    assert not controller.busy


def test_without_operators_on_bins_there_is_nothing_to_command():
    controller = RescaleController(ZERO)
    controller.joined(TWO)
    assert controller.act(0, []) == []
    assert not controller.busy


def test_a_wish_to_leave_that_comes_before_the_news_of_the_join_is_granted():
    operators = Operators([[ZERO, ONE] * 4], {ZERO, ONE})
    controller = RescaleController(ZERO)
    controller.wishes_to_leave(TWO)
    assert controller.act(0, operators.views()) == []
    controller.joined(TWO)
    operators.run(controller)
    assert operators.sent == [[Bootstrap(ZERO, TWO)], [Retire(TWO)]]
    assert not controller.busy
