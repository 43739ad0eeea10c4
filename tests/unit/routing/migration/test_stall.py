"""How long outputs stood still while there was something to come out."""

from __future__ import annotations

import pytest

from routing.migration.stall import StallMeter


def longest(*seen: tuple[float, int, int]) -> float:
    """Of what was seen: when, the epoch that is fed, and the least that may come out."""
    meter = StallMeter(seen_s=seen[0][0])
    for now_s, fed_at, output in seen:
        meter.note(now_s, fed_at, {"all": output})
    return meter.longest_s


def test_the_longest_that_an_output_stood_still():
    assert longest((10.0, 5, 3), (10.7, 5, 3), (10.8, 6, 4), (11.0, 6, 5)) == pytest.approx(0.7)


def test_it_counts_from_when_it_began_and_while_it_lasts():
    meter = StallMeter(seen_s=1.0)
    meter.note(1.5, 5, {"all": 3})
    assert meter.longest_s == 0.0, "how long it had stood before is not known"
    meter.note(1.9, 5, {"all": 3})
    assert meter.longest_s == pytest.approx(0.4)


def test_outputs_that_have_caught_up_with_the_inputs_do_not_stall():
    """Nothing comes in, so nothing can come out."""
    seen = [(0.0, 5, 4), (0.5, 5, 5), (9.0, 5, 5), (9.2, 6, 5), (9.5, 7, 5), (9.6, 7, 6)]
    assert longest(*seen) == pytest.approx(0.5)


def test_one_output_that_moves_is_enough_and_none_may_be_behind():
    meter = StallMeter(seen_s=0.0)
    for now_s, outputs in [(0.0, {"a": 3, "b": 9}), (0.4, {"a": 4, "b": 9}), (1.0, {"a": 4, "b": 9})]:
        meter.note(now_s, 9, outputs)
    assert meter.longest_s == pytest.approx(0.6)
