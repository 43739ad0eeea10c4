"""How far goals are, each counted from when it began, and which of those that have ended are remembered."""

from __future__ import annotations

from dataclasses import replace

from routing.migration.goal_book import GOALS_KEPT, Amount, GoalBook
from routing.migration.goals import GoalState, Rebalance

BEGUN = GoalState(0, "first", "under way", "", 0.0, 0.0, 0, 0, 0, 0)


def test_amounts_add_up_and_subtract():
    assert Amount(3, 30) + Amount(1, 5) == Amount(4, 35)
    assert Amount(3, 30) - Amount(1, 5) == Amount(2, 25)
    assert sum([Amount(1, 2), Amount(3, 4)], Amount()) == Amount(4, 6)


def test_goals_are_counted_from_0_each_with_what_has_moved_since_it_began():
    book = GoalBook()
    assert book.enter(Rebalance(), "first", 10.0) == 0
    assert book.goals[0].state == BEGUN
    book.moved += Amount(2, 20)
    assert book.enter(Rebalance(), "second", 11.0) == 1
    book.moved += Amount(1, 10)
    book.goals[0].stall.longest_s = 0.25
    book.update(12.5, Amount(4, 40), "4 bins are to move")
    assert book.goals[0].state == GoalState(
        0, "first", "under way", "4 bins are to move", 2.5, 0.25, bins_moved=3, bins=7, bytes_moved=30, state_bytes=70
    )
    assert book.goals[1].state == GoalState(
        1, "second", "under way", "4 bins are to move", 1.5, 0.0, bins_moved=1, bins=5, bytes_moved=10, state_bytes=50
    )


def test_a_goal_that_has_ended_changes_no_more():
    book = GoalBook()
    first, second = book.enter(Rebalance(), "first", 0.0), book.enter(Rebalance(), "second", 0.0)
    [ended] = book.end([first], "superseded", "superseded by second", 3.0)
    assert ended == replace(BEGUN, status="superseded", reason="superseded by second", duration_s=3.0)
    assert list(book.active) == [second]
    book.moved += Amount(1, 10)
    book.update(9.0, Amount(), "")
    assert book.goals[first].state == ended


def test_the_last_that_have_ended_are_remembered_and_all_that_have_not():
    book = GoalBook()
    kept = book.enter(Rebalance(), "long", 0.0)
    for _ in range(GOALS_KEPT + 10):
        book.end([book.enter(Rebalance(), "short", 0.0)], "reached", "", 0.0)
    newest = book.enter(Rebalance(), "new", 0.0)
    assert newest == GOALS_KEPT + 11
    assert sorted(book.goals) == [kept, *range(newest - GOALS_KEPT, newest + 1)]
