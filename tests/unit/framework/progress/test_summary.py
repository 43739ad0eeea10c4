"""Summaries by example; their laws are in `tests/property/test_order.py`."""

from __future__ import annotations

import pytest

from framework.errors import GraphError
from framework.progress.order import EPOCH_MAX, Product, Time
from framework.progress.summary import Local, Outer, Summary, advances, followed_by, results_in


@pytest.mark.parametrize(
    ("summary", "time", "result"),
    [
        (0, 4, 4),
        (3, 4, 7),
        (1, EPOCH_MAX - 1, EPOCH_MAX),
        (1, EPOCH_MAX, None),
        (Local(0), Product(1, 5), Product(1, 5)),
        (Local(2), Product(1, 5), Product(1, 7)),
        (Local(1), Product(1, EPOCH_MAX), None),
        (Outer(1, 0), Product(1, 5), Product(2, 0)),
        (Outer(2, 3), Product(1, 5), Product(3, 3)),
        (Outer(1, 0), Product(EPOCH_MAX, 5), None),
        (Outer(Local(1), 0), Product(Product(1, 5), 9), Product(Product(1, 6), 0)),
        (Outer(Outer(1, 2), 3), Product(Product(1, 5), 9), Product(Product(2, 2), 3)),
    ],
)
def test_where_a_time_ends_up(summary: Summary, time: Time, result: Time | None):
    assert results_in(summary, time) == result


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (1, 2, 3),
        (EPOCH_MAX, 0, EPOCH_MAX),
        (EPOCH_MAX, 1, None),
        (Local(1), Local(2), Local(3)),
        (Local(EPOCH_MAX), Local(1), None),
        (Local(7), Outer(1, 2), Outer(1, 2)),
        (Outer(1, 2), Local(7), Outer(1, 9)),
        (Outer(1, 2), Outer(3, 4), Outer(4, 4)),
        (Outer(1, EPOCH_MAX), Local(1), None),
        (Outer(EPOCH_MAX, 2), Outer(1, 4), None),
        (Outer(Local(1), 2), Outer(Outer(1, 0), 4), Outer(Outer(1, 0), 4)),
    ],
)
def test_one_path_after_another(first: Summary, second: Summary, both: Summary | None):
    assert followed_by(first, second) == both


@pytest.mark.parametrize(
    ("summary", "advancing"),
    [(0, False), (1, True), (Local(0), False), (Local(1), True), (Outer(1, 0), True), (Outer(Local(1), 0), True)],
)
def test_which_paths_advance(summary: Summary, advancing: bool):
    assert advances(summary) is advancing


@pytest.mark.parametrize("step", [-1, EPOCH_MAX + 1])
def test_a_step_that_is_none(step: int):
    with pytest.raises(GraphError, match=f"between 0 and {EPOCH_MAX} iterations, not {step}"):
        Local(step)
    with pytest.raises(GraphError, match=f"between 0 and {EPOCH_MAX} iterations, not {step}"):
        Outer(1, step)


def test_time_does_not_run_backwards_through_the_scope_around():
    with pytest.raises(GraphError, match="forgets the iteration without advancing the enclosing time") as refusal:
        Outer(0, 5)
    assert "Outer(1, 0), or use Local" in str(refusal.value)
