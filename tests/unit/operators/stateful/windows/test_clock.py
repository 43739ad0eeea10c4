"""Clocks: the first epoch at whose end the watermark has reached an event time."""

from __future__ import annotations

import pytest

from framework.errors import UserError
from operators import Clock, EpochClock, WatermarkClock


@pytest.mark.parametrize("span", [1, 7, 10])
@pytest.mark.parametrize("delay", [0, 1, 10, 25])
@pytest.mark.parametrize("start", [-13, 0, 5])
def test_both_clocks_find_what_counting_up_finds(span: int, delay: int, start: int):
    def watermark(epoch: int) -> int:
        return start + (epoch + 1) * span - delay

    clocks: list[Clock] = [EpochClock(span, delay=delay, start=start), WatermarkClock(watermark)]
    for event_time in range(-60, 120):
        first = next(epoch for epoch in range(1000) if watermark(epoch) >= event_time)
        assert [clock.reached(event_time) for clock in clocks] == [first, first]


def test_a_watermark_that_stands_still_and_jumps():
    watermarks = [0, 0, 0, 10, 10, 500]
    clock = WatermarkClock(lambda epoch: watermarks[min(epoch, 5)])
    assert [clock.reached(time) for time in (-1, 0, 1, 10, 11, 500)] == [0, 0, 3, 3, 5, 5]


def test_a_far_event_time_takes_few_steps():
    asked: list[int] = []

    def watermark(epoch: int) -> int:
        asked.append(epoch)
        return epoch

    clock = WatermarkClock(watermark)
    assert clock.reached(10**12) == 10**12
    assert len(asked) < 100
    asked.clear()
    assert clock.reached(10**12) == 10**12
    assert asked == []


def test_a_watermark_that_never_gets_there():
    with pytest.raises(UserError, match="is 7 and still not 8; let `watermark"):
        WatermarkClock(lambda epoch: 7).reached(8)


@pytest.mark.parametrize(("span", "delay"), [(0, 0), (-1, 0), (1, -1)])
def test_a_clock_that_cannot_be(span: int, delay: int):
    with pytest.raises(UserError, match="the span of an epoch is at least 1, and the delay at least 0"):
        EpochClock(span, delay=delay)
