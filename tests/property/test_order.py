"""Times and summaries obey the laws that progress tracking rests on."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from framework.progress.domain import Domain, Iteration, Region
from framework.progress.order import EPOCH_MAX, Product, Time, linear_key
from framework.progress.summary import Local, Outer, Summary, advances, followed_by, results_in
from tests.property.strategies import DEPTHS, summaries, times


def coordinates(time: Time) -> tuple[int, ...]:
    """A time, from the outermost coordinate in."""
    return (time,) if isinstance(time, int) else (*coordinates(time.outer), time.inner)


def below(a: Time, b: Time) -> bool:
    """The order of times, by definition: no coordinate is greater."""
    return all(x <= y for x, y in zip(coordinates(a), coordinates(b), strict=True))


@given(DEPTHS.flatmap(lambda depth: st.tuples(times(depth), times(depth))))
def test_times_are_ordered_coordinate_by_coordinate(pair: tuple[Any, Any]):
    a, b = pair
    assert (a <= b) is below(a, b)
    assert (a >= b) is below(b, a)
    assert (a < b) is (below(a, b) and coordinates(a) != coordinates(b))
    assert (a > b) is (below(b, a) and coordinates(a) != coordinates(b))
    assert (a == b) is (coordinates(a) == coordinates(b))


@given(DEPTHS.flatmap(lambda depth: st.tuples(times(depth), times(depth))))
def test_linear_key_extends_the_order(pair: tuple[Any, Any]):
    a, b = pair
    if a < b:
        assert linear_key(a) < linear_key(b)
    assert (linear_key(a) == linear_key(b)) is (a == b)


def corners(depth: int) -> list[Time]:
    """Times that tell any two summaries of small steps apart."""
    numbers = (0, 1, 7, 50)
    if depth == 0:
        return list(numbers)
    return [Product(outer, inner) for outer in corners(depth - 1) for inner in numbers]


def pointwise(first: Summary, second: Summary, depth: int) -> bool:
    """The order of summaries, by definition: the results are ordered for every time."""
    for time in corners(depth):
        a, b = results_in(first, time), results_in(second, time)
        if b is not None and not (a is not None and below(a, b)):
            return False
    return True


@given(DEPTHS.flatmap(lambda depth: st.tuples(st.just(depth), summaries(depth), summaries(depth))))
def test_summaries_are_ordered_as_their_results_are(drawn: tuple[int, Any, Any]):
    depth, first, second = drawn
    assert (first <= second) is pointwise(first, second, depth)


@given(
    DEPTHS.flatmap(
        lambda depth: st.tuples(summaries(depth, small=False), summaries(depth, small=False), times(depth, small=False))
    )
)
def test_a_path_after_another_does_what_both_do(drawn: tuple[Any, Any, Any]):
    first, second, time = drawn
    between = results_in(first, time)
    after_both = None if between is None else results_in(second, between)
    combined = followed_by(first, second)
    if combined is None:
        assert after_both is None
    elif not isinstance(second, Outer) or isinstance(first, int):
        assert results_in(combined, time) == after_both
    elif after_both is not None:
        # A time that was never on the way may be one again once the iterations are forgotten: too early, so safe.
        assert results_in(combined, time) == after_both


@given(DEPTHS.flatmap(lambda depth: st.tuples(*[summaries(depth, small=False)] * 3)))
def test_followed_by_is_associative(drawn: tuple[Any, Any, Any]):
    a, b, c = drawn
    ab, bc = followed_by(a, b), followed_by(b, c)
    left = None if ab is None else followed_by(ab, c)
    right = None if bc is None else followed_by(a, bc)
    if None not in (ab, bc):
        assert left == right
    elif isinstance(a, int):
        assert left is None
        assert right is None


@given(DEPTHS.flatmap(lambda depth: st.tuples(summaries(depth, small=False), times(depth, small=False))))
def test_a_path_leads_to_a_later_time_or_to_none(drawn: tuple[Any, Any]):
    summary, time = drawn
    result = results_in(summary, time)
    if result is not None:
        assert (linear_key(result) > linear_key(time)) is advances(summary)
        assert max(coordinates(result)) <= EPOCH_MAX


@given(DEPTHS.flatmap(lambda depth: st.tuples(summaries(depth), times(depth), times(depth))))
def test_paths_keep_the_order_of_times(drawn: tuple[Any, Any, Any]):
    summary, a, b = drawn
    if a <= b:
        assert below(results_in(summary, a), results_in(summary, b))  # type: ignore[arg-type]


@given(DEPTHS.flatmap(lambda depth: st.tuples(st.just(depth), times(depth), summaries(depth))))
def test_the_identity_changes_nothing(drawn: tuple[int, Any, Any]):
    depth, time, summary = drawn
    identity = Domain(depth).identity
    assert results_in(identity, time) == time
    assert followed_by(identity, summary) == summary
    assert followed_by(summary, identity) == summary
    assert not advances(identity)


@given(DEPTHS.flatmap(lambda depth: st.tuples(st.just(depth), times(depth))))
def test_the_minimum_is_below_all_and_the_successor_advances(drawn: tuple[int, Any]):
    depth, time = drawn
    domain = Domain(depth)
    assert domain.minimum <= time
    later = results_in(domain.successor, time)
    assert later is not None
    assert time < later
    assert coordinates(later)[-1] == coordinates(time)[-1] + 1


@given(st.integers(0, 1).flatmap(lambda depth: st.tuples(st.just(depth), times(depth + 1), summaries(depth + 1))))
def test_what_a_path_inside_does_to_times_outside(drawn: tuple[int, Any, Any]):
    """Entering, following a path inside and leaving is what the scope's own summary says."""
    depth, inner_time, summary = drawn
    nesting = Iteration(Domain(depth))
    outer_time = nesting.leave(inner_time)
    result = results_in(summary, nesting.enter(outer_time))
    assert result is not None
    assert nesting.leave(result) == results_in(nesting.leave_summary(summary), outer_time)
    assert nesting.leave(nesting.enter(outer_time)) == outer_time
    assert nesting.enter(outer_time) <= inner_time
    assert nesting.inner == Domain(depth + 1)


@given(DEPTHS.flatmap(lambda depth: st.tuples(st.just(depth), times(depth), summaries(depth))))
def test_a_region_changes_no_time(drawn: tuple[int, Any, Any]):
    depth, time, summary = drawn
    region = Region(Domain(depth))
    assert (region.enter(time), region.leave(time), region.leave_summary(summary)) == (time, time, summary)
    assert region.inner == region.outer == Domain(depth)


def test_a_local_and_an_outer_path_are_never_ordered():
    assert not Local(0) <= Outer(1, 0)
    assert not Outer(1, 0) <= Local(0)
