"""Which times and summaries belong to a scope."""

from __future__ import annotations

from typing import Any

import pytest

from framework.errors import GraphError
from framework.progress.domain import Domain
from framework.progress.order import EPOCH_MAX, Product, linear_key
from framework.progress.summary import Local, Outer


@pytest.mark.parametrize(
    ("depth", "time"),
    [(0, 0), (0, EPOCH_MAX), (1, Product(3, 4)), (2, Product(Product(1, 2), 3)), (1, Product(0, EPOCH_MAX))],
)
def test_times_of_a_scope(depth: int, time: Any):
    Domain(depth).check_time(time)


@pytest.mark.parametrize(
    ("depth", "time"),
    [
        (0, -1),
        (0, EPOCH_MAX + 1),
        (0, True),
        (0, 1.5),
        (0, "1"),
        (0, Product(0, 0)),
        (1, 0),
        (1, Product(Product(0, 0), 0)),
        (2, Product(0, 0)),
        (1, Product(-1, 0)),
        (1, Product(0, -1)),
        (1, Product(0, EPOCH_MAX + 1)),
    ],
)
def test_times_that_are_none_of_it(depth: int, time: Any):
    with pytest.raises(GraphError) as refusal:
        Domain(depth).check_time(time)
    assert str(refusal.value) == (
        f"{time!r} is not a time of this scope; its times look like {Domain(depth).minimum!r}, "
        f"with integers from 0 to 2**63 - 1"
    )


@pytest.mark.parametrize(
    ("depth", "summary"),
    [
        (0, 0),
        (0, 7),
        (1, Local(1)),
        (1, Outer(2, 1)),
        (2, Local(0)),
        (2, Outer(Local(1), 0)),
        (2, Outer(Outer(1, 0), 0)),
    ],
)
def test_summaries_of_a_scope(depth: int, summary: Any):
    Domain(depth).check_summary(summary)


@pytest.mark.parametrize(
    ("depth", "summary"),
    [(0, -1), (0, Local(0)), (0, Outer(1, 0)), (1, 1), (1, Outer(Local(1), 0)), (2, 0), (2, Outer(1, 0))],
)
def test_summaries_that_are_none_of_it(depth: int, summary: Any):
    with pytest.raises(GraphError) as refusal:
        Domain(depth).check_summary(summary)
    assert str(refusal.value) == (
        f"{summary!r} is not a summary of this scope; its summaries look like {Domain(depth).identity!r}"
    )


def test_what_a_domain_starts_from():
    deep = Domain(2)
    assert (deep.minimum, deep.identity, deep.successor) == (Product(Product(0, 0), 0), Local(0), Local(1))
    assert (Domain().minimum, Domain().identity, Domain().successor) == (0, 0, 1)


def test_a_product_reads_like_a_pair_and_sorts_from_the_outside_in():
    time = Product(Product(1, 2), 3)
    assert repr(time) == "((1, 2), 3)"
    assert linear_key(time) == (1, 2, 3)
