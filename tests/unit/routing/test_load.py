"""What bins weigh: counted by samples, added up over workers, and made into one number to balance by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from framework.membership.members import WorkerId
from framework.wire.codec import decode_rows, encode_rows
from routing.bins import BinId, Bins
from routing.load import WINDOW_S, BinWeight, LoadMeter, Sampling, Weighed, add_up, costs, smoothed, weigh
from routing.placement import SAMPLED_EVERY, SAMPLED_ROWS, RowKey

A, B, C = map(BinId, range(3))


class Clock:
    """A time that a test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def sampled(rows: Any) -> Sequence[BinId]:
    """Two of them: the first and the last."""
    return [BinId(rows[0]), BinId(rows[-1])]


def meter(every: int = 10) -> tuple[LoadMeter, Clock]:
    clock = Clock()
    return LoadMeter([Sampling(sampled, every), Sampling(sampled, every)], clock), clock


def test_records_that_passed_are_shared_among_the_bins_of_a_sample():
    load, clock = meter()
    load.note(0, [0] * 4)
    assert load.records_per_s() == {}
    load.note(0, [0] * 4)
    load.note(0, [0, 2])
    clock.now_s += 2.0
    assert load.records_per_s() == {A: 2.5, C: 2.5}
    for _ in range(9):
        load.note(0, [0] * 10)
    assert load.records_per_s() == {A: 47.5, C: 2.5}


def test_each_input_is_counted_by_itself_and_an_empty_container_is_no_sample():
    load, clock = meter()
    load.note(0, [0] * 9)
    load.note(1, [1] * 9)
    clock.now_s += 1.0
    assert load.records_per_s() == {}
    load.note(0, [])
    load.note(1, [1] * 3)
    assert load.records_per_s() == {B: 12.0}


def test_what_is_long_ago_counts_less_and_a_steady_rate_stays():
    load, clock = meter()
    for _ in range(100):
        clock.now_s += 0.5
        load.note(0, [0] * 50)
    assert load.records_per_s()[A] == pytest.approx(100.0)
    for _ in range(200):
        clock.now_s += 0.5
        load.note(0, [1] * 50)
    rates = load.records_per_s()
    assert rates[B] == pytest.approx(100.0, rel=0.01)
    assert rates[A] < 1.0
    assert clock.now_s == 100.0 + 150 > WINDOW_S


def test_a_bin_takes_its_rate_along():
    load, clock = meter()
    other = LoadMeter([Sampling(sampled, 10)], clock)
    clock.now_s += 1.0
    load.note(0, [0] * 5 + [1] * 5)
    clock.now_s += 1.0
    for _ in range(9):
        other.note(0, [1] * 10)
    rate = load.take(A)
    other.give(A, rate)
    other.give(B, load.take(B))
    other.give(C, load.take(C))
    assert (rate, load.records_per_s()) == (2.5, {})
    assert other.records_per_s() == {A: 2.5, B: 47.5}


@pytest.mark.parametrize(
    ("counts", "samples", "shown"),
    [
        ({}, 0, {}),
        ({A: 40.0}, 4, {A: 40.0}),
        ({A: 30.0, B: 10.0}, 4, {A: 20.0, B: 20.0}),  # three and one of four: as good as equal
        ({A: 3000.0, B: 1000.0}, 400, {A: 3000.0, B: 1000.0}),
        ({A: 800.0, B: 1100.0, C: 9000.0}, 1090, {A: 800.0, B: 1100.0, C: 9000.0}),
        ({A: 900.0, B: 1000.0, C: 9000.0}, 109, {A: 950.0, B: 950.0, C: 9000.0}),
    ],
)
def test_bins_that_differ_by_no_more_than_a_sample_may_are_alike(
    counts: dict[BinId, float], samples: float, shown: dict[BinId, float]
):
    assert smoothed(counts, samples) == shown


def test_a_meter_that_has_just_begun_divides_by_no_zero():
    load, _ = meter()
    load.note(0, [0] * 10)
    assert load.records_per_s() == {A: 10_000.0}


def test_rows_are_sampled_evenly():
    bins = Bins(16)
    sampling = RowKey(lambda record: record).sampling(bins)
    rows = list(range(1000))
    assert sampling.every == SAMPLED_EVERY
    assert sampling.sample(rows) == [bins.of(row) for row in range(0, 1000, 1000 // SAMPLED_ROWS)]
    assert sampling.sample([7]) == [bins.of(7)]


def test_weights_of_what_is_known():
    assert weigh({A: 3, C: 1}, 50, {B: 2.5, C: 1.5}) == {
        A: BinWeight(3, 150, 0.0),
        B: BinWeight(0, 0, 2.5),
        C: BinWeight(1, 50, 1.5),
    }


def test_weights_of_several_workers_and_operators_add_up():
    one, other = {A: BinWeight(1, 10, 0.5)}, {A: BinWeight(2, 20, 1.0), B: BinWeight(5, 50, 0.0)}
    assert add_up([one, other, {}]) == {A: BinWeight(3, 30, 1.5), B: BinWeight(5, 50, 0.0)}
    assert add_up([]) == {}
    assert one == {A: BinWeight(1, 10, 0.5)}


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        ({}, {}),
        ({A: BinWeight()}, {A: 0.0}),
        ({A: BinWeight(keys=1), B: BinWeight(keys=3)}, {A: 250_000.0, B: 750_000.0}),
        ({A: BinWeight(records_per_s=1.0), B: BinWeight(records_per_s=3.0)}, {A: 250_000.0, B: 750_000.0}),
        ({A: BinWeight(1, 0, 0.0), B: BinWeight(3, 0, 9.0)}, {A: 25_000.0, B: 975_000.0}),
        ({A: BinWeight(1, 10**9, 1.0), B: BinWeight(1, 0, 1.0)}, {A: 500_000.0, B: 500_000.0}),
    ],
)
def test_a_bin_costs_its_share_of_records_and_keys(weights: dict[BinId, BinWeight], shares: dict[BinId, float]):
    """Nine tenths by its records where both are known; bytes are a matter of the move, not of the work."""
    assert costs(weights) == shares


def test_what_a_worker_says_travels():
    said = Weighed(WorkerId(0), WorkerId(2), ((A, 3, 120, 2.5), (C, 1, 40, 0.0)))
    assert decode_rows(encode_rows([said])) == [said]
