"""The strategies, each on a case that can be followed by eye."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from framework.membership.members import WorkerId
from routing.bins import BinId
from routing.errors import PlanInvalid
from routing.migration import Plan, Reassignment, all_at_once, batched, fluid, optimized


def owners(*workers: int) -> list[WorkerId]:
    return [WorkerId(worker) for worker in workers]


def per_bin(*values: Any) -> dict[BinId, Any]:
    return {BinId(index): value for index, value in enumerate(values)}


def bins(plan: Plan) -> list[list[int]]:
    return [[transfer.bin_id for transfer in step.transfers] for step in plan.steps]


# Bins 0, 1, 2, 4 and 5 move; bin 3 stays.
CURRENT, TARGET = owners(0, 0, 0, 1, 1, 5), owners(1, 1, 5, 1, 0, 0)
SIZES = per_bin(10, 20, 90, 5, 30, 200)
HEAT = per_bin(1.0, 0.5, 7.0, 100.0, 3.0)
COLD, HOT = Reassignment(CURRENT, TARGET, SIZES), Reassignment(CURRENT, TARGET, SIZES, HEAT)


def test_all_at_once_is_one_step():
    assert bins(all_at_once(COLD)) == [[0, 1, 2, 4, 5]]
    assert bins(all_at_once(HOT)) == [[2, 4, 0, 1, 5]]


def test_fluid_is_a_step_per_bin():
    assert bins(fluid(COLD)) == [[0], [1], [2], [4], [5]]
    assert bins(fluid(HOT)) == [[2], [4], [0], [1], [5]]


def test_batched_fills_steps_with_bins():
    assert bins(batched(COLD, bins_max=2)) == [[0, 1], [2, 4], [5]]
    assert bins(batched(HOT, bins_max=4)) == [[2, 4, 0, 1], [5]]


def test_batched_fills_steps_with_bytes_and_a_larger_bin_goes_alone():
    assert bins(batched(COLD, step_bytes_max=120)) == [[0, 1, 2], [4], [5]]
    assert bins(batched(COLD, step_bytes_max=119)) == [[0, 1], [2], [4], [5]]
    assert bins(batched(COLD, bins_max=2, step_bytes_max=120)) == [[0, 1], [2, 4], [5]]
    assert bins(batched(COLD, step_bytes_max=1)) == bins(fluid(COLD))


def test_optimized_lets_each_worker_send_and_receive_once_per_step():
    """Worker 0 sends three bins, so there are three steps; it receives two in them meanwhile."""
    plan = optimized(COLD)
    assert len(plan.steps) == 3
    assert plan.apply(CURRENT) == TARGET
    for step in plan.steps:
        assert set(Counter(transfer.source for transfer in step.transfers).values()) == {1}
        assert set(Counter(transfer.target for transfer in step.transfers).values()) == {1}


def test_optimized_begins_with_the_step_of_the_hottest_bin():
    assert bins(optimized(HOT)) == [[2, 5], [4, 0], [1]]


def test_optimized_splits_a_step_that_has_too_many_bytes():
    plan = optimized(COLD, step_bytes_max=100)
    assert all(step.state_bytes <= 100 or len(step.transfers) == 1 for step in plan.steps)
    assert plan.apply(CURRENT) == TARGET


def test_repeated_maximum_matchings_alone_would_take_a_step_more():
    """A matching that leaves out worker 0, which has the most to send, is as large as one that does not."""
    plan = optimized(Reassignment(owners(1, 2, 0, 0), owners(8, 9, 8, 9)))
    assert len(plan.steps) == 2


def test_megaphones_figures():
    """From evenly spread to skewed, 16 workers and 4096 bins: 1024 bins in 128 steps of 8."""
    even = owners(*(index % 16 for index in range(4096)))
    skewed = owners(*((index // 2 * 2 + index % 2 * 8) % 16 for index in range(2048)), *even[2048:])
    change = Reassignment(even, skewed)
    assert len(fluid(change).steps) == 1024
    assert [len(step) for step in bins(optimized(change))] == [8] * 128


@pytest.mark.parametrize("strategy", [all_at_once, fluid, optimized, lambda change: batched(change, bins_max=1)])
def test_nothing_to_move_is_no_step(strategy: Callable[[Reassignment], Plan]):
    assert strategy(Reassignment(CURRENT, CURRENT)) == Plan(())
    assert strategy(Reassignment([], [])) == Plan(())


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(PlanInvalid, match="there are 6 bins, but a target for 1"):
        Reassignment(CURRENT, owners(0))
    with pytest.raises(PlanInvalid, match="state_bytes has bin 9, but the bins are 0 to 5"):
        Reassignment(CURRENT, TARGET, {BinId(9): 1})
    with pytest.raises(PlanInvalid, match="heat of bin 0 is nan"):
        Reassignment(CURRENT, TARGET, heat={BinId(0): float("nan")})
    with pytest.raises(PlanInvalid, match="state_bytes of bin 1 is -1"):
        Reassignment(CURRENT, TARGET, {BinId(1): -1})
    with pytest.raises(PlanInvalid, match="needs a bound"):
        batched(COLD)
    with pytest.raises(PlanInvalid, match="`bins_max` is 0"):
        batched(COLD, bins_max=0)
    with pytest.raises(PlanInvalid, match="`step_bytes_max` is 0"):
        optimized(COLD, step_bytes_max=0)
