"""Which rows of a batch are in which windows: found for all of them together, by compiled code.

Event time is cut where the windows that an event is in change: at each start, and, if the step does not divide the
length, where the window that began first ends. The rows between two cuts are a `WindowSlice`, and go to the same
windows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from operators.columns.errors import ValueUnfit
from routing.columns.compiled import kernel
from routing.columns.keys import read_only
from routing.columns.memory import Array

SPANS_MAX = 4096
"""If there may be more of them in a batch, they are sorted rather than counted."""


EVENT_TIME_MAX = 2**62
"""Beyond, numbers of 64 bits would overflow."""


@dataclass(frozen=True, slots=True)
class WindowSlice:
    """Rows that are in the same windows: from `first` to just before `end`, and the starts of the windows."""

    first: int
    end: int
    starts: range


@dataclass(frozen=True, slots=True)
class WindowSlices:
    """Windows of `length` that start every `step`, at `offset` and whole steps from there."""

    length: int
    step: int
    offset: int

    def divided(self, times: Array) -> tuple[Array | None, list[WindowSlice]]:
        """The order in which the rows of a span are together, or None if there is one only; and the spans."""
        if not len(times):
            return None, []
        lowest, highest = int(times.min()), int(times.max())
        for one in (lowest, highest):
            if abs(one) + self.length + abs(self.offset) >= EVENT_TIME_MAX:
                raise ValueUnfit(f"event time {one} is too far from 0: there is room for windows up to 62 bits")
        low, high = self._number(lowest), self._number(highest)
        if low == high:
            return None, [WindowSlice(0, len(times), self._starts(low))]
        count = high - low + 1
        numbers = np.empty(len(times), np.int64)
        _number_all(times, self.offset, self.step, self._rest, low, numbers)
        if count > SPANS_MAX:
            found, numbers = np.unique(numbers, return_inverse=True)
        else:
            found = np.arange(count)
        ends, order = np.zeros(len(found) + 1, np.int64), np.empty(len(times), np.int64)
        _deal(read_only(numbers), ends, order)
        spans = [
            WindowSlice(int(first), int(end), self._starts(low + int(found[index])))
            for index, (first, end) in enumerate(pairwise(ends))
            if first < end
        ]
        return order, spans

    def _number(self, time: int) -> int:
        """Which span an event is in."""
        whole, since = divmod(time - self.offset, self.step)
        return 2 * whole + (since >= self._rest)

    @property
    def _rest(self) -> int:
        """How far behind its last start an event still is in the window that began first of those it may be in."""
        return self.length - (self._windows - 1) * self.step

    @property
    def _windows(self) -> int:
        return -(-self.length // self.step)

    def _starts(self, number: int) -> range:
        """The starts of the windows of a span: an even number is that of those before the rest is over."""
        last = self.offset + number // 2 * self.step
        count = self._windows - number % 2
        return range(last, last - count * self.step, -self.step)


@kernel
def _number_all(times, offset, step, rest, low, numbers):
    """Which span each row is in, counted from the lowest."""
    for row in range(len(times)):
        since = times[row] - offset
        whole = since // step
        numbers[row] = 2 * whole - low + (0 if since - whole * step < rest else 1)


@kernel
def _deal(numbers, ends, order):
    """Count, then deal: afterwards the rows of span `s` are `order[ends[s]:ends[s + 1]]`, in their order."""
    for row in range(len(numbers)):
        ends[numbers[row] + 1] += 1
    for span in range(1, len(ends)):
        ends[span] += ends[span - 1]
    next_of = ends[:-1].copy()
    for row in range(len(numbers)):
        order[next_of[numbers[row]]] = row
        next_of[numbers[row]] += 1
