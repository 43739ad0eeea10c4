"""When it pays to combine the records of a batch before they are sent."""

from __future__ import annotations

from random import Random

import pytest

from routing.columns.adaptive import BACK_OFF_MAX, SAMPLE_ROWS, CombineHeuristic


def test_at_first_some_rows_are_looked_at_and_once_it_has_paid_all():
    heuristic = CombineHeuristic(0.25)
    assert heuristic.rows_to_try(100_000) == SAMPLE_ROWS
    heuristic.paid()
    assert heuristic.rows_to_try(100_000) == 100_000
    heuristic.did_not_pay()
    assert heuristic.rows_to_try(100_000) == 0
    assert heuristic.rows_to_try(100_000) == SAMPLE_ROWS


def test_a_batch_that_is_no_larger_than_what_is_looked_at_is_tried_as_a_whole():
    assert CombineHeuristic(0.25).rows_to_try(1000) == 1000


def test_it_is_tried_less_and_less_often_while_it_does_not_pay_and_at_once_when_it_does():
    heuristic = CombineHeuristic(0.25)

    def passed_over() -> int:
        count = 0
        while not heuristic.rows_to_try(1000):
            count += 1
        return count

    waits = []
    for _ in range(9):
        waits.append(passed_over())
        heuristic.did_not_pay()
    assert waits == [0, 1, 2, 4, 8, 16, 32, 64, 64]
    assert passed_over() == BACK_OFF_MAX
    heuristic.paid()
    assert passed_over() == 0
    heuristic.did_not_pay()
    assert passed_over() == 1


def test_batches_too_small_to_tell_anything_are_sent_as_they_are_and_do_not_count():
    heuristic = CombineHeuristic(0.25)
    heuristic.did_not_pay()
    assert [heuristic.rows_to_try(3) for _ in range(5)] == [0] * 5
    assert heuristic.rows_to_try(4) == 0
    assert heuristic.rows_to_try(4) == 4


@pytest.mark.parametrize("share", [0.4, 0.25, 0.01])
def test_of_a_whole_batch_the_share_may_be_keys(share: float):
    assert CombineHeuristic(share).keys_max(100_000, 100_000) == pytest.approx(share * 100_000, abs=1)


def test_one_key_is_always_few():
    assert CombineHeuristic(0.25).keys_max(2, 2) == 1


@pytest.mark.parametrize(("share", "fewer", "more"), [(0.25, 12_000, 24_000), (0.02, 900, 1_800)])
def test_what_some_rows_have_tells_how_many_keys_all_have(share: float, fewer: int, more: int):
    rows, random = 65_536, Random(1)
    for keys in (fewer, more):
        drawn = [random.randrange(keys) for _ in range(rows)]
        few = len(set(drawn[:SAMPLE_ROWS])) <= CombineHeuristic(share).keys_max(SAMPLE_ROWS, rows)
        assert few == (len(set(drawn)) <= share * rows) == (keys == fewer)
