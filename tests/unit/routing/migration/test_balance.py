"""Balanced targets, on cases that can be followed by eye."""

from __future__ import annotations

import pytest

from framework.membership.members import WorkerId
from routing.bins import BinId
from routing.errors import PlanInvalid
from routing.migration.balance import balance


def owners(*workers: int) -> list[WorkerId]:
    return [WorkerId(worker) for worker in workers]


def loads(*values: float) -> dict[BinId, float]:
    return {BinId(index): value for index, value in enumerate(values)}


def test_a_joining_worker_gets_its_part_of_the_bins():
    assert balance(owners(0, 1, 0, 1, 0, 1), owners(0, 1, 9)) == owners(0, 1, 0, 1, 9, 9)


def test_a_leaving_worker_is_left_with_nothing():
    assert balance(owners(0, 1, 2, 0, 1, 2), owners(0, 2)) == owners(0, 0, 2, 0, 2, 2)


def test_bins_that_are_even_stay_where_they_are():
    current = owners(4, 0, 0, 4, 4)
    assert balance(current, owners(4, 0)) == current


def test_loads_are_what_counts_when_they_are_known():
    """One bin is as heavy as the three others."""
    assert balance(owners(0, 0, 0, 0), owners(0, 1), loads(3, 1, 1, 1)) == owners(1, 0, 0, 0)


def test_the_heaviest_bin_that_fits_goes_first():
    assert balance(owners(0, 0, 0, 0, 0), owners(0, 1), loads(1, 1, 1, 5, 4)) == owners(0, 0, 1, 1, 0)


def test_a_giant_stays_and_the_others_level_out_around_it():
    current = owners(0, 1, 1, 1, 1)
    assert balance(current, owners(0, 1, 2), loads(100, 1, 1, 1, 1), tolerance=0) == owners(0, 1, 1, 2, 2)


def test_a_giant_is_rid_of_its_company():
    assert balance(owners(0, 0, 0), owners(0, 1, 2), loads(100, 2, 1)) == owners(0, 1, 2)


def test_what_is_within_the_tolerance_stays():
    current = owners(0, 0, 0, 1, 1)
    assert balance(current, owners(0, 1), loads(1, 10, 10, 10, 10)) == current
    assert balance(current, owners(0, 1), loads(5, 4, 10, 5, 5), tolerance=1) == current
    assert balance(current, owners(0, 1), loads(5, 4, 10, 5, 5)) == owners(0, 1, 0, 1, 1)


def test_a_gap_of_just_the_tolerance_stays():
    """The loads are 5 and 3, the mean is 4."""
    current = owners(0, 0, 1)
    assert balance(current, owners(0, 1), loads(1, 4, 3), tolerance=0.5) == current
    assert balance(current, owners(0, 1), loads(1, 4, 3), tolerance=0.49) == owners(1, 0, 1)


def test_bins_without_a_load_move_only_from_a_worker_that_leaves():
    """Worker 0 has all the load there is, in one bin; the idle bins of worker 2 are dealt out by number."""
    current = owners(0, 2, 2, 2, 2, 1)
    assert balance(current, owners(0, 1), {BinId(0): 5.0}) == owners(0, 1, 0, 1, 0, 1)


def test_tiny_and_huge_loads_add_up_exactly():
    target = balance(owners(0, 0, 0, 0), owners(0, 1), loads(1e300, 1e300, 5e-324, 5e-324), tolerance=0)
    assert sorted(target) == owners(0, 0, 1, 1)
    assert target[0] != target[1]
    assert target[2] != target[3]


def test_nothing_to_do_for_no_bins():
    assert balance([], owners(0)) == []


def test_what_cannot_be_balanced_is_refused():
    with pytest.raises(PlanInvalid, match="no workers are left"):
        balance(owners(0), [])
    with pytest.raises(PlanInvalid, match="loads has bin 1, but the bins are 0 to 0"):
        balance(owners(0), owners(0), loads(1, 1))
    with pytest.raises(PlanInvalid, match="loads of bin 0 is inf"):
        balance(owners(0), owners(0), loads(float("inf")))
    with pytest.raises(PlanInvalid, match="a tolerance of nan"):
        balance(owners(0), owners(0), tolerance=float("nan"))
