"""Antichains against the definition: the elements with nothing below them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from framework.progress.antichain import (
    Antichain,
    MutableAntichain,
    PartialAntichain,
    TotalAntichain,
    mutable_antichain,
)
from framework.progress.change_batch import ChangeBatch
from framework.progress.domain import Domain
from framework.progress.order import Product, Time
from tests.property.strategies import DEPTHS, summaries, times

Updates = list[tuple[Any, int]]


def minimal(elements: list[Any]) -> set[Any]:
    """Of all elements, those with no other below."""
    return {a for a in elements if not any(b <= a and b != a for b in elements)}


def updates(depth: int) -> st.SearchStrategy[Updates]:
    return st.lists(st.tuples(times(depth), st.integers(-2, 2)), max_size=40)


@given(DEPTHS.flatmap(lambda depth: st.tuples(st.lists(times(depth), max_size=12), times(depth))))
def test_an_antichain_holds_the_least_of_what_was_inserted(drawn: tuple[list[Any], Any]):
    elements, other = drawn
    antichain: Antichain[Any] = Antichain()
    seen: list[Any] = []
    for element in elements:
        assert antichain.insert(element) is not any(earlier <= element for earlier in seen)
        seen.append(element)
        assert set(antichain) == minimal(seen)
        assert len(antichain) == len(minimal(seen))
    assert antichain.less_equal(other) is any(element <= other for element in elements)
    assert antichain.less_than(other) is any(element <= other and element != other for element in elements)


@given(DEPTHS.flatmap(lambda depth: st.lists(summaries(depth), max_size=8)))
def test_an_antichain_of_summaries(elements: list[Any]):
    assert set(Antichain(elements)) == minimal(elements)


@given(DEPTHS.flatmap(lambda depth: st.lists(times(depth), max_size=8)), st.randoms(use_true_random=False))
def test_the_order_of_insertion_does_not_matter(elements: list[Any], random: Any):
    shuffled = list(elements)
    random.shuffle(shuffled)
    assert Antichain(elements) == Antichain(shuffled)
    assert (Antichain(elements) == Antichain(elements[1:])) is (minimal(elements) == minimal(elements[1:]))


def follow(antichain: MutableAntichain, sequence: Updates, probes: list[Any]) -> None:
    """Hold an antichain against a plain multiset, and its reports against its frontier."""
    counts: Counter[Any] = Counter()
    reported: Counter[Any] = Counter()
    for time, delta in sequence:
        counts[time] += delta
        for changed, way in antichain.update(time, delta):
            reported[changed] += way
        frontier = minimal([time for time, count in counts.items() if count > 0])
        assert len(antichain.frontier()) == len(frontier)
        assert set(antichain.frontier()) == frontier
        assert {time: count for time, count in reported.items() if count} == dict.fromkeys(frontier, 1)
        for probe in probes:
            assert antichain.less_than(probe) is any(time <= probe and time != probe for time in frontier)
            assert antichain.less_equal(probe) is any(time <= probe for time in frontier)
            assert antichain.count(probe) == counts[probe]
        assert dict(antichain.counts()) == {time: count for time, count in counts.items() if count}
        assert len(antichain) == len(dict(antichain.counts()))


@given(DEPTHS.flatmap(lambda depth: st.tuples(st.just(depth), updates(depth), st.lists(times(depth), max_size=5))))
def test_a_counted_antichain_is_the_frontier_of_its_counts(drawn: tuple[int, Updates, list[Any]]):
    depth, sequence, probes = drawn
    follow(mutable_antichain(Domain(depth)), sequence, probes)


@given(updates(0), st.lists(times(0), max_size=5))
def test_the_general_form_serves_integers_too(sequence: Updates, probes: list[Any]):
    follow(PartialAntichain(), sequence, probes)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(-1, 1)), max_size=400))
def test_the_two_forms_agree_on_integers(sequence: Updates):
    total, partial = TotalAntichain(), PartialAntichain()
    for time, delta in sequence:
        assert sorted(total.update(time, delta)) == sorted(partial.update(time, delta))
        assert total.frontier() == partial.frontier()


def test_many_short_lived_times_leave_nothing_behind():
    """Each time comes and goes out of order, so that the heap of integers is rebuilt again and again."""
    total: TotalAntichain = TotalAntichain()
    total.update(0, 1)
    for time in range(1, 1000):
        for visited in (time + 7, time + 3, time + 5):
            assert total.update(visited, 1) == []
            assert total.update(visited, -1) == []
        assert total.update(time, 1) == []
        assert total.update(time - 1, -1) == [(time - 1, -1), (time, 1)]
        assert total.frontier() == (time,)
        assert len(total._heap) <= 2 * len(total) + 17
    assert total.counts() == [(999, 1)]


def test_times_that_come_and_go_above_one_that_stays_leave_nothing_behind():
    total = TotalAntichain()
    total.update(0, 1)
    for time in range(1, 2000):
        total.update(time, 1)
        total.update(time, -1)
        assert len(total._heap) <= 25
    assert total.frontier() == (0,)


def test_a_heap_that_is_rebuilt_keeps_every_positive_count_in_order():
    total = TotalAntichain()
    total.update(0, 1)
    standing = [90, 50, 70, 10, 30]
    for time in standing:
        total.update(time, 1)
    for _ in range(100):
        total.update(99, 1)
        total.update(99, -1)
        assert len(total._heap) <= 2 * len(total) + 20
    total.update(5, 1)
    order = []
    for _ in range(7):
        [least] = total.frontier()
        order.append(least)
        total.update(least, -1)
    assert order == [0, 5, *sorted(standing)]
    assert total.frontier() == ()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-2, 2)), max_size=30))
def test_a_change_batch_adds_up(changes: list[tuple[str, int]]):
    batch = ChangeBatch(changes)
    expected: Counter[str] = Counter()
    for key, delta in changes:
        expected[key] += delta
    standing = {key: count for key, count in expected.items() if count}
    assert dict(batch.items()) == standing
    assert len(batch) == len(standing)
    assert all(batch.count(key) == expected[key] for key in "abcd")
    assert dict(batch.drain()) == standing
    assert (batch.drain(), len(batch)) == ([], 0)


def test_a_change_batch_forgets_when_cleared():
    batch = ChangeBatch([("a", 1)])
    batch.clear()
    assert batch.drain() == []


def test_products_that_are_not_ordered_stand_side_by_side():
    antichain = mutable_antichain(Domain(1))
    late, far = Product(1, 0), Product(0, 5)
    antichain.update(late, 1)
    assert antichain.update(far, 1) == [(far, 1)]
    assert set(antichain.frontier()) == {late, far}
    least: Time = Product(0, 0)
    assert set(antichain.update(least, 1)) == {(late, -1), (far, -1), (least, 1)}
