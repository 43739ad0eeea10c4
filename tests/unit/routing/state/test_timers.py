"""What bins have put off: due by time, and leaving with its bin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from routing.bins import BinId
from routing.state.timers import PendingTimers

A, B = BinId(1), BinId(2)


def test_items_are_due_at_their_time_by_bin():
    pending = PendingTimers()
    pending.add(A, 3, "x")
    pending.add(B, 3, "y")
    pending.add(A, 3, "z")
    pending.add(A, 1, "w")
    assert pending.first() == 1
    assert pending.due(1) == [(A, ["w"])]
    assert pending.first() == 3
    assert pending.due(3) == [(A, ["x", "z"]), (B, ["y"])]
    assert pending.first() is None
    assert pending.due(3) == []


def test_what_is_put_off_once_is_neither_kept_nor_shipped_twice():
    pending = PendingTimers(once=True)
    for item in ("x", "y", "x", "x"):
        pending.add(A, 3, item)
    pending.add(A, 4, "x")
    assert pending.take(A) == [(3, "x"), (3, "y"), (4, "x")]
    pending.install(A, [(3, "x"), (3, "y"), (4, "x")])
    pending.add(A, 3, "y")
    assert pending.due(3) == [(A, ["x", "y"])]
    assert pending.due(4) == [(A, ["x"])]
    assert pending.first() is None


def test_a_bin_leaves_with_its_items_and_says_which_times_nobody_waits_for():
    pending = PendingTimers()
    pending.add(A, 5, "x")
    pending.add(A, 2, "y")
    pending.add(B, 5, "z")
    assert pending.appeared == {2, 5}
    assert pending.take(A) == [(2, "y"), (5, "x")]
    assert pending.vanished == {2}
    assert pending.first() == 5
    assert pending.take(A) == []
    other = PendingTimers()
    other.install(A, [(2, "y"), (5, "x")])
    assert other.due(2) == [(A, ["y"])]


def test_what_belongs_to_no_bin_is_due_once_and_stays_when_every_bin_leaves():
    pending = PendingTimers()
    pending.add(A, 3, "x")
    for _ in range(2):
        pending.add_local(3, "epoch")
    pending.add_local(2, "epoch")
    assert pending.appeared == {2, 3}
    assert pending.take(A) == [(3, "x")]
    assert (pending.vanished, pending.first()) == (set(), 2)
    assert (pending.due_local(2), pending.first()) == (["epoch"], 3)
    assert pending.waits_for(3)
    assert (pending.due(3), pending.due_local(3)) == ([], ["epoch"])
    assert (pending.first(), pending.waits_for(3)) == (None, False)


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
    pending = PendingTimers()
    model: list[tuple[int, BinId, int]] = []
    for number, (kind, bin_number, time) in enumerate(operations):
        bin_id = BinId(bin_number)
        if kind == "add":
            pending.add(bin_id, time, number)
            model.append((time, bin_id, number))
        elif kind == "due":
            taken = sorted(item for _, items in pending.due(time) for item in items)
            assert taken == sorted(item for at, _, item in model if at == time)
            model = [entry for entry in model if entry[0] != time]
        else:
            taken_items = pending.take(bin_id)
            assert sorted(taken_items) == sorted((at, item) for at, owner, item in model if owner == bin_id)
            model = [entry for entry in model if entry[1] != bin_id]
        assert pending.first() == min((at for at, _, _ in model), default=None)
        assert all(pending.waits_for(at) for at, _, _ in model)
