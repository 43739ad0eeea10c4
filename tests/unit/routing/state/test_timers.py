"""Timers: due by time, and leaving with their bin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from routing.bins import BinId
from routing.state.timers import PendingTimers

A, B = BinId(1), BinId(2)


def test_items_are_due_at_their_time_by_bin():
    timers = PendingTimers()
    timers.set(A, 3, "x")
    timers.set(B, 3, "y")
    timers.set(A, 3, "z")
    timers.set(A, 1, "w")
    assert timers.first() == 1
    assert timers.pop_due(1) == [(A, ["w"])]
    assert timers.first() == 3
    assert timers.pop_due(3) == [(A, ["x", "z"]), (B, ["y"])]
    assert timers.first() is None
    assert timers.pop_due(3) == []


def test_a_timer_that_is_set_twice_is_kept_and_shipped_once():
    timers = PendingTimers(once=True)
    for item in ("x", "y", "x", "x"):
        timers.set(A, 3, item)
    timers.set(A, 4, "x")
    assert timers.extract(A) == [(3, "x"), (3, "y"), (4, "x")]
    timers.install(A, [(3, "x"), (3, "y"), (4, "x")])
    timers.set(A, 3, "y")
    assert timers.pop_due(3) == [(A, ["x", "y"])]
    assert timers.pop_due(4) == [(A, ["x"])]
    assert timers.first() is None


def test_a_bin_leaves_with_its_timers_and_says_which_times_have_none_left():
    timers = PendingTimers()
    timers.set(A, 5, "x")
    timers.set(A, 2, "y")
    timers.set(B, 5, "z")
    assert timers.new_times == {2, 5}
    assert timers.extract(A) == [(2, "y"), (5, "x")]
    assert timers.emptied_times == {2}
    assert timers.first() == 5
    assert timers.extract(A) == []
    other = PendingTimers()
    other.install(A, [(2, "y"), (5, "x")])
    assert other.pop_due(2) == [(A, ["y"])]


def test_what_belongs_to_no_bin_is_due_once_and_stays_when_every_bin_leaves():
    timers = PendingTimers()
    timers.set(A, 3, "x")
    for _ in range(2):
        timers.set_local(3, "epoch")
    timers.set_local(2, "epoch")
    assert timers.new_times == {2, 3}
    assert timers.extract(A) == [(3, "x")]
    assert (timers.emptied_times, timers.first()) == (set(), 2)
    assert (timers.pop_due_local(2), timers.first()) == (["epoch"], 3)
    assert timers.any_at(3)
    assert (timers.pop_due(3), timers.pop_due_local(3)) == ([], ["epoch"])
    assert (timers.first(), timers.any_at(3)) == (None, False)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 3), st.integers(0, 6)),
            st.tuples(st.just("due"), st.just(0), st.integers(0, 6)),
            st.tuples(st.just("take"), st.integers(0, 3), st.just(0)),
        )
    )
)
def test_it_is_a_list_of_items(operations: list[tuple[str, int, int]]):
    timers = PendingTimers()
    model: list[tuple[int, BinId, int]] = []
    for number, (kind, bin_number, time) in enumerate(operations):
        bin_id = BinId(bin_number)
        if kind == "add":
            timers.set(bin_id, time, number)
            model.append((time, bin_id, number))
        elif kind == "due":
            taken = sorted(item for _, items in timers.pop_due(time) for item in items)
            assert taken == sorted(item for at, _, item in model if at == time)
            model = [entry for entry in model if entry[0] != time]
        else:
            taken_items = timers.extract(bin_id)
            assert sorted(taken_items) == sorted((at, item) for at, owner, item in model if owner == bin_id)
            model = [entry for entry in model if entry[1] != bin_id]
        assert timers.first() == min((at for at, _, _ in model), default=None)
        assert all(timers.any_at(at) for at, _, _ in model)
