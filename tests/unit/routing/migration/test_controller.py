"""What is commanded for those that join and leave and for whoever asks, and what becomes of goals that conflict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from framework.membership.members import WorkerId
from routing.bins import BinId
from routing.commands import Bootstrap, Instruction, Move, Retire, Weigh
from routing.errors import GoalRefused
from routing.load import BinWeight, WeighedBins
from routing.migration.controller import JOB_ENDS, REFUSALS_MAX, GroupView, MigrationController
from routing.migration.goals import Assign, Goal, GoalState, Pace, Rebalance, Resize

ZERO, ONE, TWO, THREE = map(WorkerId, range(4))
EPOCH_S = 0.01
ALL = "all"
ONE_BIN_PER_STEP = Pace("fluid")


@dataclass(slots=True)
class Operators:
    """Operators that decide on a command at the next epoch, and are complete so many epochs later."""

    tables: dict[str, list[WorkerId]]
    eligible: set[WorkerId]
    weights: dict[str, dict[BinId, BinWeight]] = field(default_factory=dict)
    lag: int = 0
    refuses: Callable[[Instruction], bool] = lambda _: False
    epoch: int = 0
    sent: list[list[Instruction]] = field(default_factory=list)
    _weighed_at: int | None = None

    @property
    def now_s(self) -> float:
        return self.epoch * EPOCH_S

    @property
    def moves(self) -> list[Move]:
        return [instruction for due in self.sent for instruction in due if isinstance(instruction, Move)]

    def owned(self, group: str = ALL) -> Counter[WorkerId]:
        return Counter(self.tables[group])

    def views(self, complete: int | None = None, decided: int | None = None) -> list[GroupView]:
        return [
            GroupView(
                name,
                owners,
                frozenset(self.eligible),
                decided=self.epoch - 1 if decided is None else decided,
                complete=self.epoch - self.lag if complete is None else complete,
                weighed=None if self._weighed_at is None else WeighedBins(self._weighed_at, self._weights(name)),
                heard=self.epoch,
            )
            for name, owners in self.tables.items()
        ]

    def _weights(self, group: str) -> dict[BinId, BinWeight]:
        return self.weights.get(group, {BinId(index): BinWeight(1, 100) for index in range(len(self.tables[group]))})

    def start(self, controller: MigrationController, goal: Goal, text: str = "it", pace: Pace | None = None) -> int:
        return controller.start(goal, text, pace or Pace(), self.now_s, self.views(), sorted(self.eligible))

    def act(self, controller: MigrationController) -> list[Instruction]:
        """One epoch."""
        due = controller.act(self.now_s, self.epoch, self.views())
        if due:
            self.sent.append(due)
        if not any(map(self.refuses, due)):
            self._carry_out(due)
        self.epoch += 1
        return due

    def run(self, controller: MigrationController, until: Callable[[], bool] = lambda: False) -> None:
        for _ in range(500):
            if until():
                return
            self.act(controller)

    def move(self, bin_id: int, worker: WorkerId, group: str = ALL) -> None:
        """As somebody else commands."""
        owners = list(self.tables[group])
        owners[bin_id] = worker
        self.tables[group] = owners

    def _carry_out(self, due: Sequence[Instruction]) -> None:
        for instruction in due:
            match instruction:
                case Bootstrap(server, joiner):
                    assert len(due) == 1
                    assert server in self.eligible
                    self.eligible.add(joiner)
                case Retire(worker):
                    assert len(due) == 1
                    assert all(worker not in table for table in self.tables.values()), "it still owns bins"
                    self.eligible.discard(worker)
                case Weigh(worker):
                    assert len(due) == 1
                    assert worker in self.eligible
                    self._weighed_at = self.epoch
                case Move(bin_id, worker, group):
                    assert worker in self.eligible, f"{worker} may not own bins"
                    assert group is not None
                    self.move(bin_id, worker, group)


def controller() -> MigrationController:
    return MigrationController(ZERO)


def on(owners: Sequence[WorkerId], lag: int = 0) -> Operators:
    """A group of operators, all of whose owners may own bins."""
    return Operators({ALL: list(owners)}, set(owners) | {ZERO}, lag=lag)


def ended(moving: MigrationController, number: int) -> tuple[str, str]:
    return moving.state(number).status, moving.state(number).reason


# Those that join and leave


def test_a_joiner_is_bootstrapped_and_given_its_share_of_what_the_bins_weigh():
    operators, moving = on([ZERO, ONE] * 6), controller()
    moving.joined(TWO)
    assert (moving.busy, moving.waiting) == (True, [TWO])
    operators.run(moving)
    assert operators.sent[:2] == [[Bootstrap(ZERO, TWO)], [Weigh(ZERO)]]
    assert operators.owned() == {ZERO: 4, ONE: 4, TWO: 4}
    assert len(operators.moves) == 4, "no bin moves twice"
    assert {move.group for move in operators.moves} == {ALL}
    assert (moving.busy, moving.waiting) == (False, [])


def test_joiners_of_one_moment_move_each_bin_once():
    operators, moving = on([ZERO] * 12), controller()
    for joiner in (ONE, TWO):
        moving.joined(joiner)
    operators.run(moving)
    assert operators.sent[:3] == [[Bootstrap(ZERO, ONE)], [Bootstrap(ZERO, TWO)], [Weigh(ZERO)]]
    assert len(operators.moves) == 8
    assert operators.owned() == {ZERO: 4, ONE: 4, TWO: 4}


def test_a_leaver_is_emptied_and_retired():
    operators, moving = on([ZERO, ONE, TWO] * 4), controller()
    moving.wishes_to_leave(ONE)
    moving.wishes_to_leave(ONE)
    operators.run(moving)
    assert operators.sent[-1] == [Retire(ONE)]
    assert operators.sent.count([Retire(ONE)]) == 1
    assert operators.owned() == {ZERO: 6, TWO: 6}
    assert not moving.busy


def test_nobody_who_leaves_is_given_bins():
    operators, moving = on([ZERO, ONE, TWO, THREE] * 4), controller()
    moving.wishes_to_leave(ONE)
    moving.wishes_to_leave(TWO)
    operators.run(moving)
    assert not {ONE, TWO} & {move.worker for move in operators.moves}
    assert operators.owned() == {ZERO: 8, THREE: 8}
    assert operators.eligible == {ZERO, THREE}


@pytest.mark.parametrize("wish_first", [True, False])
def test_who_joins_and_wants_to_leave_at_once_gets_no_bins(wish_first: bool):
    """Be it that its wish is heard of before its join."""
    operators, moving = on([ZERO, ONE] * 4), controller()
    if wish_first:
        moving.wishes_to_leave(TWO)
        operators.act(moving)
        moving.joined(TWO)
    else:
        moving.joined(TWO)
        moving.wishes_to_leave(TWO)
    operators.run(moving)
    assert (operators.moves, operators.sent[-1], operators.eligible) == ([], [Retire(TWO)], {ZERO, ONE})
    assert not moving.busy


def test_the_last_that_may_own_bins_stays():
    operators, moving = on([ZERO] * 4), controller()
    moving.wishes_to_leave(ZERO)
    operators.run(moving)
    assert (operators.moves, operators.eligible, moving.waiting) == ([], {ZERO}, [ZERO])


def test_groups_of_different_numbers_of_bins_are_moved_each_by_itself():
    operators, moving = Operators({"few": [ZERO, ONE] * 4, "many": [ZERO, ONE] * 16}, {ZERO, ONE}), controller()
    moving.joined(TWO)
    moving.wishes_to_leave(ONE)
    operators.run(moving)
    assert operators.owned("few") == {ZERO: 4, TWO: 4}
    assert operators.owned("many") == {ZERO: 16, TWO: 16}
    assert all(len({move.group for move in due if isinstance(move, Move)}) <= 1 for due in operators.sent)
    assert operators.eligible == {ZERO, TWO}


def test_a_bootstrap_waits_until_what_was_sent_is_decided_and_for_nothing_else():
    """The joiner holds records back, so nothing may be complete before it has its routing state."""
    operators, moving = on([ZERO, ONE] * 64), controller()
    moving.wishes_to_leave(ONE)
    operators.run(moving, until=lambda: bool(operators.moves))
    moving.joined(THREE)
    sent_at = operators.epoch - 1
    assert moving.act(0.1, 100, operators.views(complete=0, decided=sent_at - 1)) == []
    assert moving.act(0.2, 101, operators.views(complete=0, decided=sent_at)) == [Bootstrap(ZERO, THREE)]
    assert moving.act(0.3, 102, operators.views(complete=0, decided=101)) == [Bootstrap(ZERO, THREE)], "it was refused"


def test_who_has_gone_waits_for_nothing():
    operators, moving = on([ZERO]), controller()
    moving.joined(TWO)
    moving.wishes_to_leave(ONE)
    for worker in (ONE, TWO):
        moving.gone(worker)
    assert moving.waiting == []
    operators.run(moving)
    assert (operators.moves, moving.busy) == ([], False)


def test_without_operators_on_bins_there_is_nothing_to_command():
    moving = controller()
    moving.joined(TWO)
    number = moving.start(Rebalance(), "rebalance", Pace(), 0.0, [], [ZERO])
    assert moving.act(0.0, 0, []) == []
    assert (moving.busy, ended(moving, number)) == (False, ("reached", ""))
    with pytest.raises(GoalRefused, match="there is no group 'all' of operators whose bins can move; there are none"):
        moving.start(Assign(ALL, {BinId(0): ZERO}), "move", Pace(), 0.0, [], [ZERO])


# Steps


def test_the_next_step_is_sent_when_the_last_is_complete():
    operators, moving = on([ZERO] * 4, lag=5), controller()
    number = operators.start(moving, Assign(ALL, dict.fromkeys(map(BinId, range(3)), ZERO)), "map")
    operators.eligible.add(ONE)
    operators.run(moving, until=lambda: not moving.busy)
    assert (operators.sent, moving.state(number).bins) == ([[Weigh(ZERO)]], 0), "they are where they should be"
    operators.start(moving, Assign(ALL, dict.fromkeys(map(BinId, range(3)), ONE)), "map", ONE_BIN_PER_STEP)
    sent_at: list[int] = []
    while moving.busy:
        if any(isinstance(instruction, Move) for instruction in operators.act(moving)):
            sent_at.append(operators.epoch - 1)
    assert [second - first for first, second in pairwise(sent_at)] == [6, 6]
    assert operators.owned() == {ONE: 3, ZERO: 1}


def test_a_gap_is_kept_between_steps():
    operators, moving = on([ZERO, ZERO, ONE]), controller()
    pace = Pace("fluid", gap_s=10 * EPOCH_S)
    operators.start(moving, Assign(ALL, {BinId(0): ONE, BinId(1): ONE}), "map", pace)
    operators.run(moving, until=lambda: bool(operators.moves))
    assert moving.due_at_s is None, "its step is under way"
    complete_s = operators.now_s
    operators.act(moving)
    assert moving.due_at_s == complete_s + pace.gap_s
    operators.run(moving, until=lambda: len(operators.moves) == 2)
    assert operators.epoch - 1 == pytest.approx((complete_s + pace.gap_s) / EPOCH_S, abs=1)
    operators.run(moving)
    assert (moving.busy, moving.due_at_s) == (False, None)


def test_a_refused_step_is_planned_again_from_where_things_are():
    operators, moving = on([ZERO, ZERO, ONE]), controller()
    number = operators.start(moving, Assign(ALL, {BinId(0): ONE, BinId(1): ONE}), "map")
    operators.refuses = lambda instruction: isinstance(instruction, Move) and len(operators.moves) <= 4
    operators.run(moving)
    assert operators.moves == [Move(BinId(0), ONE, ALL), Move(BinId(1), ONE, ALL)] * 3
    assert (ended(moving, number), operators.owned()) == (("reached", ""), {ONE: 3})
    assert moving.state(number).bins_moved == moving.state(number).bins == 2


def test_goals_whose_steps_are_refused_again_and_again_are_given_up():
    operators, moving = on([ZERO, ZERO, ONE]), controller()
    number = operators.start(moving, Assign(ALL, {BinId(0): ONE}), "map")
    operators.refuses = lambda instruction: isinstance(instruction, Move)
    operators.run(moving)
    assert len(operators.moves) == REFUSALS_MAX + 1
    assert ended(moving, number) == ("failed", f"its commands were refused {REFUSALS_MAX + 1} times")
    assert not moving.busy


def test_who_wants_to_leave_is_emptied_however_often_steps_are_refused():
    operators, moving = on([ZERO, ONE, ONE]), controller()
    moving.wishes_to_leave(ONE)
    number = operators.start(moving, Resize(leaving=(TWO,)), "scale to 2")
    operators.refuses = lambda instruction: isinstance(instruction, Move) and len(operators.moves) < 30
    operators.run(moving)
    assert ended(moving, number)[0] == "failed"
    assert (operators.owned(), operators.eligible, moving.busy) == ({ZERO: 3}, {ZERO}, False)


def test_bins_are_weighed_again_if_that_was_refused():
    operators, moving = on([ZERO] * 4), controller()
    operators.eligible.add(ONE)
    operators.start(moving, Rebalance(), "rebalance")
    operators.refuses = lambda instruction: isinstance(instruction, Weigh) and len(operators.sent) < 3
    operators.run(moving)
    assert operators.sent[:3] == [[Weigh(ZERO)]] * 3
    assert operators.owned() == {ZERO: 2, ONE: 2}


def test_nothing_moves_before_all_have_said_what_their_bins_weigh():
    operators, moving = on([ZERO] * 4), controller()
    operators.eligible.add(ONE)
    operators.start(moving, Rebalance(), "rebalance")
    assert operators.act(moving) == [Weigh(ZERO)]
    [view] = operators.views()
    unheard = GroupView(view.name, view.owners, view.eligible, decided=0, complete=9, weighed=None, heard=0)
    assert moving.act(0.1, 5, [unheard]) == []
    assert all(isinstance(instruction, Move) for instruction in moving.act(0.2, 6, [view]))


def test_hot_bins_are_spread_by_what_comes_to_them():
    """Bin 0 has most of the records, and few keys."""
    operators, moving = on([ZERO] * 4), controller()
    operators.eligible.add(ONE)
    loads = [BinWeight(1, 10, 300.0), *(BinWeight(5, 10, 100.0) for _ in range(3))]
    operators.weights[ALL] = {BinId(index): weight for index, weight in enumerate(loads)}
    operators.start(moving, Rebalance(), "rebalance")
    operators.run(moving)
    [hot] = [owner for index, owner in enumerate(operators.tables[ALL]) if index == 0]
    assert operators.owned()[hot] == 1 or operators.owned() == {ZERO: 2, ONE: 2}
    assert len(operators.moves) <= 2


def test_what_a_goal_has_moved_is_counted_in_bins_and_bytes():
    operators, moving = on([ZERO] * 4, lag=3), controller()
    operators.eligible.add(ONE)
    number = operators.start(moving, Rebalance(), "rebalance", ONE_BIN_PER_STEP)
    seen: list[GoalState] = []
    while moving.busy:
        operators.act(moving)
        seen.append(moving.state(number))
    counted = [(state.bins_moved, state.bins, state.bytes_moved, state.state_bytes) for state in seen]
    assert list(dict.fromkeys(counted)) == [(0, 0, 0, 0), (0, 2, 0, 200), (1, 2, 100, 200), (2, 2, 200, 200)]
    assert [state.status for state in seen] == ["under way"] * (len(seen) - 1) + ["reached"]
    assert seen[-1].duration_s == pytest.approx(operators.now_s - EPOCH_S)
    assert seen[-1].stall_s_max <= seen[-1].duration_s


# Goals that get in each other's way


def test_a_rebalance_while_a_leave_comes_ends_well_and_so_does_the_leave():
    operators, moving = on([ZERO] * 12 + [ONE, TWO], lag=2), controller()
    number = operators.start(moving, Rebalance(), "rebalance", ONE_BIN_PER_STEP)
    operators.run(moving, until=lambda: len(operators.moves) == 2)
    moving.wishes_to_leave(TWO)
    operators.run(moving)
    assert ended(moving, number) == ("reached", "")
    assert (operators.owned(), operators.eligible) == ({ZERO: 7, ONE: 7}, {ZERO, ONE})


def test_a_resize_waits_for_its_joiners_and_moves_each_bin_once():
    operators, moving = on([ZERO] * 12), controller()
    number = operators.start(moving, Resize(joining=(ONE, TWO)), "scale to 3")
    operators.run(moving)
    assert (operators.sent, moving.state(number).reason) == ([], "worker 1 is to join")
    moving.joined(ONE)
    operators.run(moving)
    assert operators.sent == [[Bootstrap(ZERO, ONE)]]
    moving.joined(TWO)
    operators.run(moving)
    assert operators.owned() == {ZERO: 4, ONE: 4, TWO: 4}
    assert (ended(moving, number), len(operators.moves), moving.busy) == (("reached", ""), 8, False)


def test_a_joiner_that_does_not_come_is_not_waited_for():
    operators, moving = on([ZERO] * 12), controller()
    number = operators.start(moving, Resize(joining=(ONE, TWO)), "scale to 3")
    moving.joined(ONE)
    moving.not_coming(TWO)
    operators.run(moving)
    assert (ended(moving, number), operators.owned()) == (("reached", ""), {ZERO: 6, ONE: 6})


def test_a_resize_empties_those_that_are_to_leave_and_retires_them_when_they_ask():
    """Until they do, they may stay after all."""
    operators, moving = on([ZERO, ONE, TWO] * 4), controller()
    number = operators.start(moving, Resize(leaving=(ONE, TWO)), "scale to 1")
    operators.run(moving)
    assert (ended(moving, number), operators.owned()) == (("reached", ""), {ZERO: 12})
    assert (operators.eligible, moving.busy) == ({ZERO, ONE, TWO}, False)
    sent = len(operators.sent)
    moving.wishes_to_leave(ONE)
    assert moving.waiting == []
    operators.act(moving)
    moving.wishes_to_leave(TWO)
    operators.run(moving)
    assert operators.sent[sent:] == [[Retire(ONE)], [Retire(TWO)]], "there is nothing to weigh"
    assert not moving.busy


def test_a_resize_supersedes_another_and_who_was_to_leave_stays():
    operators, moving = on([ZERO, ONE, TWO] * 4, lag=2), controller()
    first = operators.start(moving, Resize(leaving=(ONE, TWO)), "scale to 1", ONE_BIN_PER_STEP)
    operators.run(moving, until=lambda: len(operators.moves) == 3)
    second = operators.start(moving, Resize(leaving=(TWO,)), "scale to 2")
    assert ended(moving, first) == ("superseded", "superseded by scale to 2")
    operators.run(moving)
    assert (ended(moving, second), operators.owned()) == (("reached", ""), {ZERO: 6, ONE: 6})


@pytest.mark.parametrize("emptied", [False, True])
def test_a_resize_to_what_there_was_gives_those_that_were_to_leave_bins_again(emptied: bool):
    operators, moving = on([ZERO, ONE] * 4), controller()
    operators.start(moving, Resize(leaving=(ONE,)), "scale to 1", ONE_BIN_PER_STEP)
    operators.run(moving, until=lambda: len(operators.moves) == (4 if emptied else 2))
    operators.start(moving, Resize(), "scale to 2")
    operators.run(moving)
    assert (operators.owned(), moving.busy) == ({ZERO: 4, ONE: 4}, False)


def test_what_was_assigned_before_a_rebalance_gives_way_to_it():
    operators, moving = on([ZERO] * 8), controller()
    operators.eligible.add(ONE)
    first = operators.start(moving, Assign(ALL, dict.fromkeys(map(BinId, range(7)), ONE)), "map", ONE_BIN_PER_STEP)
    operators.run(moving, until=lambda: bool(operators.moves))
    operators.start(moving, Rebalance(), "rebalance")
    operators.run(moving)
    assert operators.owned() == {ZERO: 4, ONE: 4}
    assert ended(moving, first) == ("superseded", "superseded by what was asked for later")


def test_what_is_assigned_to_where_something_later_wants_it_not_is_superseded():
    operators, moving = on([ZERO, ZERO, ONE], lag=2), controller()
    first = operators.start(moving, Assign(ALL, {BinId(0): ONE}), "move of 1 bin to worker 1")
    second = operators.start(moving, Assign(ALL, {BinId(0): ZERO, BinId(1): ONE}), "map")
    operators.run(moving)
    assert ended(moving, first) == ("superseded", "superseded by what was asked for later")
    assert (ended(moving, second), operators.tables[ALL]) == (("reached", ""), [ZERO, ONE, ONE])


def test_what_others_have_moved_stays_where_they_want_it():
    operators, moving = on([ZERO] * 6, lag=2), controller()
    operators.eligible.add(ONE)
    number = operators.start(moving, Assign(ALL, dict.fromkeys(map(BinId, range(4)), ONE)), "map", ONE_BIN_PER_STEP)
    operators.run(moving, until=lambda: len(operators.moves) == 1)
    operators.act(moving)
    operators.move(5, ONE)
    operators.move(3, ONE)
    operators.run(moving)
    assert operators.tables[ALL] == [ONE, ONE, ONE, ONE, ZERO, ONE]
    assert (ended(moving, number), len(operators.moves)) == (("reached", ""), 3)


@pytest.mark.parametrize("goal", [Assign(ALL, dict.fromkeys(map(BinId, range(4)), ONE)), Rebalance()])
def test_a_step_under_way_counts_once_if_others_move_bins_meanwhile(goal: Goal):
    operators, moving = on([ZERO] * 8, lag=3), controller()
    operators.eligible.add(ONE)
    number = operators.start(moving, goal, pace=ONE_BIN_PER_STEP)
    operators.run(moving, until=lambda: len(operators.moves) == 1)
    operators.act(moving)
    operators.move(7, ONE)
    operators.run(moving)
    assert (ended(moving, number), moving.busy) == (("reached", ""), False)
    assert operators.tables[ALL][7] == ONE


def test_what_others_move_to_who_wants_to_leave_moves_on():
    """Its Retire is refused meanwhile."""
    operators, moving = on([ZERO, ZERO, ONE]), controller()
    operators.refuses = lambda instruction: isinstance(instruction, Retire) and ONE in operators.tables[ALL]
    moving.wishes_to_leave(ONE)
    operators.run(moving, until=lambda: ONE not in operators.tables[ALL])
    operators.move(0, ONE)
    operators.run(moving)
    assert (operators.owned(), operators.eligible, moving.busy) == ({ZERO: 3}, {ZERO}, False)


def test_bins_that_others_moved_while_nothing_was_wanted_can_be_moved_back():
    operators, moving = on([ZERO, ZERO, ONE]), controller()
    operators.start(moving, Assign(ALL, {BinId(0): ONE}), "there")
    operators.run(moving)
    operators.move(1, ONE)
    number = operators.start(moving, Assign(ALL, {BinId(1): ZERO}), "back")
    operators.run(moving)
    assert (ended(moving, number), operators.tables[ALL]) == (("reached", ""), [ONE, ZERO, ONE])


def test_what_others_move_while_bins_are_weighed_stays_there():
    operators, moving = on([ZERO, ZERO, ONE]), controller()
    number = operators.start(moving, Assign(ALL, {BinId(0): ONE}), "move")
    assert operators.act(moving) == [Weigh(ZERO)]
    operators.move(1, ONE)
    operators.run(moving)
    assert (ended(moving, number), operators.tables[ALL]) == (("reached", ""), [ONE, ONE, ONE])


@pytest.mark.parametrize(
    ("goal", "complaint"),
    [
        (
            Assign("some", {BinId(0): ZERO}),
            "there is no group 'some' of operators whose bins can move; there are 'all'",
        ),
        (Assign(ALL, {BinId(3): ZERO}), "there is no bin 3; the bins are 0 to 2"),
        (Assign(ALL, {BinId(-1): ZERO}), "there is no bin -1; the bins are 0 to 2"),
        (Assign(ALL, {BinId(0): TWO}), "worker 2 is about to leave; name one of 0, 1 for bin 0"),
        (Assign(ALL, {BinId(0): THREE}), "worker 3 may own no bins; name one of 0, 1 for bin 0"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(goal: Goal, complaint: str):
    operators, moving = on([ZERO, ONE, TWO]), controller()
    moving.wishes_to_leave(TWO)
    with pytest.raises(GoalRefused) as refused:
        operators.start(moving, goal)
    assert str(refused.value) == complaint
    operators.run(moving)
    assert TWO not in operators.tables[ALL]


# Cancelled, and at the end


def test_cancelled_goals_end_after_the_step_under_way():
    operators, moving = on([ZERO] * 8, lag=3), controller()
    operators.eligible.add(ONE)
    number = operators.start(moving, Rebalance(), "rebalance", ONE_BIN_PER_STEP)
    operators.run(moving, until=lambda: len(operators.moves) == 2)
    [cancelled] = moving.cancel(operators.now_s)
    assert (cancelled.number, cancelled.status) == (number, "cancelled")
    assert (cancelled.bins_moved, cancelled.bins) == (2, 4), "a step that is under way is carried out"
    operators.run(moving)
    assert (operators.owned(), moving.busy) == ({ZERO: 6, ONE: 2}, False)
    assert (moving.state(number).bins_moved, moving.state(number).bins) == (2, 4)
    assert moving.cancel(operators.now_s) == []
    again = operators.start(moving, Rebalance(), "rebalance")
    operators.run(moving)
    assert (moving.state(again).bins_moved, operators.owned()) == (2, {ZERO: 4, ONE: 4})


def test_what_is_asked_for_while_the_step_of_a_cancelled_goal_is_under_way_leaves_that_there():
    operators, moving = on([ZERO] * 4, lag=3), controller()
    operators.eligible.add(ONE)
    operators.start(moving, Assign(ALL, {BinId(0): ONE, BinId(1): ONE}), "map", ONE_BIN_PER_STEP)
    operators.run(moving, until=lambda: bool(operators.moves))
    before = [GroupView(ALL, [ZERO] * 4, frozenset({ZERO, ONE}), decided=0, complete=0)]
    moving.cancel(operators.now_s)
    number = moving.start(Assign(ALL, {BinId(3): ONE}), "move", Pace(), operators.now_s, before, [ZERO, ONE])
    operators.run(moving)
    assert operators.tables[ALL] == [ONE, ZERO, ZERO, ONE]
    assert len(operators.moves) == 2
    assert (moving.state(number).bins_moved, moving.state(number).bins) == (1, 1), "the other was the cancelled goal's"


def test_a_cancelled_resize_leaves_those_that_come_without_bins_and_those_that_were_to_leave():
    operators, moving = on([ZERO, ONE] * 4, lag=2), controller()
    number = operators.start(moving, Resize(joining=(TWO,), leaving=(ONE,)), "resize")
    moving.cancel(operators.now_s)
    moving.joined(TWO)
    operators.run(moving)
    assert (ended(moving, number), operators.moves) == (("cancelled", ""), [])
    assert (operators.eligible, moving.busy) == ({ZERO, ONE, TWO}, False)


def test_who_wants_to_leave_of_its_own_leaves_whatever_is_cancelled():
    operators, moving = on([ZERO, ONE] * 4, lag=2), controller()
    moving.wishes_to_leave(ONE)
    operators.run(moving, until=lambda: bool(operators.moves))
    assert moving.cancel(operators.now_s) == []
    operators.run(moving)
    assert (operators.owned(), operators.eligible, moving.busy) == ({ZERO: 8}, {ZERO}, False)


def test_when_the_inputs_end_only_those_on_their_way_get_what_they_need():
    operators, moving = on([ZERO] * 8 + [ONE] * 4, lag=2), controller()
    number = operators.start(moving, Rebalance(), "rebalance", ONE_BIN_PER_STEP)
    operators.run(moving, until=lambda: len(operators.moves) == 1)
    moving.wishes_to_leave(ONE)
    moving.joined(TWO)
    moving.close(operators.now_s)
    assert ended(moving, number) == ("failed", JOB_ENDS)
    operators.run(moving)
    assert (operators.owned(), operators.eligible, moving.busy) == ({ZERO: 6, TWO: 6}, {ZERO, TWO}, False)


def test_when_the_inputs_end_nobody_is_waited_for_that_is_to_come():
    operators, moving = on([ZERO] * 8), controller()
    number = operators.start(moving, Resize(joining=(ONE,)), "scale to 2")
    moving.close(operators.now_s)
    assert ended(moving, number) == ("failed", JOB_ENDS)
    operators.run(moving)
    assert (operators.sent, moving.busy) == ([], False)


def test_when_the_inputs_end_a_resize_whose_workers_are_there_goes_on():
    operators, moving = on([ZERO, ONE] * 4, lag=2), controller()
    number = operators.start(moving, Resize(leaving=(ONE,)), "scale to 1", ONE_BIN_PER_STEP)
    operators.run(moving, until=lambda: len(operators.moves) == 1)
    moving.close(operators.now_s)
    operators.run(moving)
    assert (ended(moving, number), operators.owned(), moving.busy) == (("reached", ""), {ZERO: 8}, False)


def test_when_the_inputs_end_a_resize_is_carried_out_whatever_else_ends():
    operators, moving = on([ZERO] * 7 + [ONE]), controller()
    assigned = operators.start(moving, Assign(ALL, {BinId(0): ONE}))
    resized = operators.start(moving, Resize())
    moving.close(operators.now_s)
    operators.run(moving)
    assert ended(moving, assigned)[0] == "failed"
    assert (ended(moving, resized), operators.owned()) == (("reached", ""), {ZERO: 4, ONE: 4})


def test_operators_that_end_keep_nothing_waiting():
    operators, moving = Operators({"few": [ZERO] * 4, "many": [ZERO] * 8}, {ZERO, ONE}, lag=2), controller()
    number = operators.start(moving, Assign("few", {BinId(0): ONE, BinId(1): ONE}), "map", ONE_BIN_PER_STEP)
    spread = operators.start(moving, Rebalance(), "rebalance", ONE_BIN_PER_STEP)
    operators.run(moving, until=lambda: bool(operators.moves))
    assert operators.moves[0].group == "few"
    del operators.tables["few"]
    operators.run(moving)
    assert ended(moving, number) == ("failed", "the operators of its bins have ended")
    assert (ended(moving, spread), operators.owned("many")) == (("reached", ""), {ZERO: 4, ONE: 4})
    assert not moving.busy


def test_when_all_operators_have_ended_nothing_is_left_to_do():
    operators, moving = on([ZERO] * 8, lag=2), controller()
    operators.eligible.add(ONE)
    number = operators.start(moving, Assign(ALL, {BinId(0): ONE}), "move")
    operators.run(moving, until=lambda: bool(operators.moves))
    operators.tables.clear()
    operators.run(moving)
    assert (ended(moving, number)[0], moving.busy) == ("failed", False)


# One after the other


def test_a_gap_ends_with_its_goal():
    operators, moving = on([ZERO] * 8), controller()
    operators.eligible.add(ONE)
    operators.start(moving, Rebalance(), pace=Pace("fluid", gap_s=3600.0))
    operators.run(moving, until=lambda: len(operators.moves) == 1)
    for _ in range(5):
        operators.act(moving)
    moving.cancel(operators.now_s)
    number = operators.start(moving, Rebalance())
    operators.run(moving)
    assert (ended(moving, number), moving.due_at_s) == (("reached", ""), None)


def test_no_gap_is_kept_once_the_inputs_have_ended():
    operators, moving = on([ZERO] * 4 + [ONE] * 4), controller()
    number = operators.start(moving, Resize(leaving=(ONE,)), pace=Pace("fluid", gap_s=3600.0))
    operators.run(moving, until=lambda: len(operators.moves) == 1)
    for _ in range(5):
        operators.act(moving)
    moving.close(operators.now_s)
    operators.run(moving)
    assert (ended(moving, number), moving.busy) == (("reached", ""), False)


def test_what_is_assigned_while_a_joiner_is_waited_for_holds():
    operators, moving = on([ZERO] * 12), controller()
    resized = operators.start(moving, Resize(joining=(ONE,)))
    operators.run(moving)
    kept = range(7)
    assigned = operators.start(moving, Assign(ALL, dict.fromkeys(map(BinId, kept), ZERO)))
    moving.joined(ONE)
    operators.run(moving)
    assert (ended(moving, resized), ended(moving, assigned)) == (("reached", ""), ("reached", ""))
    assert operators.owned() == {ZERO: 7, ONE: 5}
    assert {operators.tables[ALL][bin_id] for bin_id in kept} == {ZERO}


def test_who_owns_nothing_retires_while_a_joiner_is_waited_for():
    operators, moving = on([ZERO] * 12), controller()
    operators.eligible.add(ONE)
    operators.start(moving, Resize(joining=(TWO,)))
    moving.wishes_to_leave(ONE)
    operators.run(moving)
    assert operators.sent == [[Retire(ONE)]]


@pytest.mark.parametrize(
    "goal", [Rebalance(), Assign(ALL, {BinId(0): ONE, BinId(1): ONE, BinId(2): ONE, BinId(3): ONE})]
)
def test_who_was_emptied_and_not_told_to_leave_may_own_bins_again(goal: Goal):
    operators, moving = on([ZERO, ONE] * 4), controller()
    operators.start(moving, Resize(leaving=(ONE,)))
    operators.run(moving)
    assert operators.owned() == {ZERO: 8}
    number = operators.start(moving, goal)
    operators.run(moving)
    assert ended(moving, number) == ("reached", "")
    assert operators.owned() == {ZERO: 4, ONE: 4}


def test_once_the_inputs_have_ended_no_goal_is_taken():
    operators, moving = on([ZERO, ONE] * 4), controller()
    moving.close(operators.now_s)
    with pytest.raises(GoalRefused, match="the job's inputs have ended, and its bins move no more"):
        operators.start(moving, Resize(joining=(TWO,)))
    assert not moving.busy
