"""Bins: a power of two of them, chosen by the first bits of the hash."""

from __future__ import annotations

from typing import Any

import pytest

from framework.membership.members import WorkerId
from routing.bins import BINS_MAX, Bins
from routing.errors import BinCountInvalid
from routing.hashing import stable_hash


@pytest.mark.parametrize(("count", "shift"), [(1, 64), (2, 63), (256, 56), (BINS_MAX, 48)])
def test_the_first_bits_of_the_hash_are_the_bin(count: int, shift: int):
    bins = Bins(count)
    assert bins.shift == shift
    assert [bins.of(key) for key in ("tea", 1, None)] == [stable_hash(key) >> shift for key in ("tea", 1, None)]


def test_where_keys_are_is_for_ever():
    assert [Bins(4096).of(key) for key in ("", "tea", 0, -1, (), None)] == [3418, 2662, 3120, 2124, 3574, 1214]


def test_there_are_256_unless_told_otherwise():
    assert Bins() == Bins(256)


@pytest.mark.parametrize("count", [0, -1, -2, 3, 255, 2 * BINS_MAX, 256.0, True, "256", None])
def test_other_numbers_are_refused(count: Any):
    with pytest.raises(BinCountInvalid, match="power of two from 1 to 65536"):
        Bins(count)


def test_workers_own_bins_in_turn_whatever_their_ids():
    workers = [WorkerId(3), WorkerId(0), WorkerId(17)]
    assert Bins(8).initial_owners(workers) == [3, 0, 17, 3, 0, 17, 3, 0]
