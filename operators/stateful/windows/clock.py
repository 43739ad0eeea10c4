"""How far event time has come: the watermark.

A record has two times. Its *epoch* says when it arrived, in the dataflow's logical time. Its *event time* says when the
thing happened: an integer in a unit of the job's choice. The watermark of an epoch is the event time before which,
apart from late records, everything has arrived by the end of that epoch. It is a function of the epoch alone, so every
worker knows it without being told, and a result does not depend on how fast anything ran.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from framework.errors import UserError
from operators.stateful.windows.event_time import check_whole

SEARCHED_EPOCH_MAX = 2**62
REMEMBERED_MAX = 4096


class Clock(Protocol):
    """What windows need to know of the watermark."""

    def reached(self, event_time: int) -> int:
        """The first epoch, 0 or later, at whose end the watermark is `event_time` or later."""


@dataclass(frozen=True, slots=True)
class EpochClock:
    """Each epoch brings the events of a span of event time, and some come up to `delay` after their span.

    >>> clock = EpochClock(1000)
    >>> clock.reached(1000), clock.reached(1001), EpochClock(1000, delay=5).reached(1000)
    (0, 1, 1)

    Epoch `e` brings the events from `start + e * span` to just before `start + (e + 1) * span`, so at its end the
    watermark is `start + (e + 1) * span - delay`. Longer delays let results wait for stragglers.
    """

    span: int
    delay: int = 0
    start: int = 0

    def __post_init__(self) -> None:
        check_whole("EpochClock", span=self.span, delay=self.delay, start=self.start)
        if self.span < 1 or self.delay < 0:
            raise UserError(f"{self} cannot be: the span of an epoch is at least 1, and the delay at least 0")

    def reached(self, event_time: int) -> int:
        return max(0, -((self.start - self.delay - event_time) // self.span) - 1)


class WatermarkClock:
    """The watermark is what a function says, for epochs of uneven length.

    >>> ends = [60, 90, 300]
    >>> clock = WatermarkClock(lambda epoch: ends[epoch] if epoch < len(ends) else epoch * 1000)
    >>> clock.reached(60), clock.reached(61), clock.reached(299), clock.reached(301)
    (0, 1, 2, 3)

    `watermark(epoch)` must never fall, must exceed every event time some day, and must be the same on all workers.
    """

    def __init__(self, watermark: Callable[[int], int]) -> None:
        self._watermark = watermark
        self.reached = lru_cache(REMEMBERED_MAX)(self._search)
        """The first epoch, 0 or later, at whose end the watermark is that event time or later."""

    def _search(self, event_time: int) -> int:
        behind, there = -1, 0
        while self._watermark(there) < event_time:
            behind, there = there, 2 * there + 1
            if there > SEARCHED_EPOCH_MAX:
                raise UserError(
                    f"the watermark of epoch {behind} is {self._watermark(behind)} and still not {event_time}; let "
                    f"`watermark(epoch)` rise with the epoch, and see that `event_time(record)` has the same unit"
                )
        while there - behind > 1:
            middle = (behind + there) // 2
            if self._watermark(middle) < event_time:
                behind = middle
            else:
                there = middle
        return there
