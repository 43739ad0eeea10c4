"""How many bytes a step may have, by what the last one was like; and the steps that are cut by it."""

from __future__ import annotations

import pytest

from framework.membership.members import WorkerId
from routing.bins import BinId
from routing.migration.pacing import (
    BINS_MAX,
    BYTES_FIRST,
    BYTES_MAX,
    BYTES_MIN,
    STALL_S,
    WITHIN_S,
    StepBudget,
    StepFelt,
    heaviest_sender,
    paced,
)
from routing.migration.plan import Step, Transfer


def transfer(bin_id: int, source: int, target: int, state_bytes: int = 0) -> Transfer:
    return Transfer(BinId(bin_id), WorkerId(source), WorkerId(target), state_bytes)


def bins(step: Step) -> list[int]:
    return [transfer.bin_id for transfer in step.transfers]


@pytest.mark.parametrize(
    ("stall_s", "heaviest_bytes", "factor"),
    [
        (0.0, 1000, 1.5),
        (STALL_S / 1.5, 1000, 1.5),
        (STALL_S, 1000, 1.0),
        (2 * STALL_S, 1000, 0.5),
        (100 * STALL_S, 1000, 0.25),
        (100 * STALL_S, 1, 0.25),
        (0.0, 500, 1.5),
        (0.0, 499, 1.0),
    ],
)
def test_a_budget_follows_the_stall_of_a_step_that_used_it(stall_s: float, heaviest_bytes: int, factor: float):
    """Up to half as much again, down to a quarter; a step far below the budget does not show that more would do."""
    budget = StepBudget(1000 * 1000)
    budget.note(StepFelt(heaviest_bytes * 1000, stall_s, took_s=0.0, whole_bytes=0))
    assert budget.bytes_max == pytest.approx(1000 * 1000 * factor, rel=1e-3)


def test_a_budget_stays_within_its_bounds():
    budget = StepBudget()
    assert budget.bytes_max == BYTES_FIRST
    for _ in range(20):
        budget.note(StepFelt(BYTES_MAX, 0.0, took_s=0.01, whole_bytes=0))
    assert budget.bytes_max == BYTES_MAX
    for _ in range(20):
        budget.note(StepFelt(BYTES_MAX, 10.0, took_s=10.0, whole_bytes=0))
    assert budget.bytes_max == BYTES_MIN


def test_where_steps_wait_long_for_their_turn_there_are_fewer_and_larger_ones():
    """Of 8 MB in all, each step takes a quarter of the time that all may take."""
    budget = StepBudget(1000 * 1000)
    budget.note(StepFelt(1000 * 1000, STALL_S, took_s=WITHIN_S / 4, whole_bytes=8 * 1000 * 1000))
    assert budget.bytes_max == 2 * 1000 * 1000


def test_pairs_of_workers_move_at_once_and_no_worker_is_in_two():
    transfers = [transfer(index, *lane) for index, lane in enumerate([(0, 1), (0, 2), (3, 2), (0, 1), (3, 1), (0, 1)])]
    assert [bins(step) for step in paced(transfers, StepBudget())] == [[0, 3, 5, 2], [1, 4]]


def test_a_worker_may_send_to_one_and_receive_from_another():
    steps = list(paced([transfer(0, 0, 1), transfer(1, 1, 2)], StepBudget()))
    assert [bins(step) for step in steps] == [[0, 1]]


def test_steps_keep_the_order_of_what_moves():
    transfers = [transfer(index, 0, 1, 100) for index in (7, 3, 5, 1)]
    assert [bins(step) for step in paced(transfers, StepBudget(200))] == [[7, 3], [5, 1]]


def test_each_step_is_cut_by_what_the_budget_is_then():
    budget = StepBudget(100)
    steps = paced([transfer(index, 0, 1, 100) for index in range(6)], budget)
    assert bins(next(steps)) == [0]
    budget.bytes_max = 300
    assert bins(next(steps)) == [1, 2, 3]
    budget.bytes_max = 1
    assert [bins(step) for step in steps] == [[4], [5]]


def test_a_bin_that_is_larger_than_the_budget_moves_alone():
    sizes = [10, 1000, 10, 10]
    steps = paced([transfer(index, 0, 1, size) for index, size in enumerate(sizes)], StepBudget(25))
    assert [bins(step) for step in steps] == [[0], [1], [2, 3]]


def test_empty_bins_are_bounded_by_their_number():
    steps = list(paced([transfer(index, 0, 1) for index in range(2 * BINS_MAX + 1)], StepBudget()))
    assert [len(step.transfers) for step in steps] == [BINS_MAX, BINS_MAX, 1]


def test_nothing_to_move_takes_no_step():
    assert list(paced([], StepBudget())) == []


def test_the_heaviest_sender_of_a_step():
    step = Step((transfer(0, 0, 1, 10), transfer(1, 2, 3, 15), transfer(2, 0, 3, 10)))
    assert (heaviest_sender(step), heaviest_sender(Step(()))) == (20, 0)
