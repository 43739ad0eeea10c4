"""Divides a batch into slices of event time, whose rows belong to the same windows.

Event time is cut wherever a window starts or ends, which makes two slices per step, or one if the step divides the
length: the slices of paired windows (Krishnamurthy et al. 2006). Kernels number the slice of each row and sort rows by
it. `windowing` applies each slice to its windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from operators.errors import ValueUnfit
from routing.columns.compiled import kernel
from routing.columns.keys import read_only
from routing.columns.memory import Array

COUNTED_SLICES_MAX = 4096
"""If a batch may have more slices, the ones that occur are found by sorting before rows are counted."""

EVENT_TIME_MAX = 2**62
"""A bound on event times, lengths and offsets that keeps their sums within 64 bits."""


@dataclass(frozen=True, slots=True)
class WindowSlice:
    """Rows of the same windows: from `first` to just before `end`, and the starts of the windows."""

    first: int
    end: int
    starts: range


@dataclass(frozen=True, slots=True)
class WindowSlices:
    """Windows of `length` that start every `step`, at `offset` and whole steps from there."""

    length: int
    step: int
    offset: int

    def divide(self, times: Array) -> tuple[Array | None, list[WindowSlice]]:
        """An order of rows that makes slices contiguous, None if there is only one; and the slices."""
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
        _number_slices(times, self.offset, self.step, self._rest, low, numbers)
        if count > COUNTED_SLICES_MAX:
            found, numbers = np.unique(numbers, return_inverse=True)
        else:
            found = np.arange(count)
        ends, order = np.zeros(len(found) + 1, np.int64), np.empty(len(times), np.int64)
        _counting_sort(read_only(numbers), ends, order)
        slices = [
            WindowSlice(int(first), int(end), self._starts(low + int(found[index])))
            for index, (first, end) in enumerate(pairwise(ends))
            if first < end
        ]
        return order, slices

    def _number(self, time: int) -> int:
        """The number of the slice that an event is in: even for the first slice of a step, odd for the second."""
        whole, since = divmod(time - self.offset, self.step)
        return 2 * whole + (since >= self._rest)

    @property
    def _rest(self) -> int:
        """The length of a step's first slice, at whose end the oldest of the windows open at its start ends."""
        return self.length - (self._windows - 1) * self.step

    @property
    def _windows(self) -> int:
        """The number of windows that a step's first slice is in."""
        return -(-self.length // self.step)

    def _starts(self, number: int) -> range:
        """The starts of the windows of a slice, the latest first."""
        last = self.offset + number // 2 * self.step
        count = self._windows - number % 2
        return range(last, last - count * self.step, -self.step)


@kernel
def _number_slices(times: Array, offset: int, step: int, rest: int, low: int, numbers: Array) -> None:
    """The slice of each row, counted from the lowest."""
    for row in range(len(times)):
        since = times[row] - offset
        whole = since // step
        numbers[row] = 2 * whole - low + (0 if since - whole * step < rest else 1)


@kernel
def _counting_sort(numbers: Array, ends: Array, order: Array) -> None:
    """A stable counting sort: afterwards the rows of slice `s` are `order[ends[s]:ends[s + 1]]`."""
    for row in range(len(numbers)):
        ends[numbers[row] + 1] += 1
    for number in range(1, len(ends)):
        ends[number] += ends[number - 1]
    next_of = ends[:-1].copy()
    for row in range(len(numbers)):
        order[next_of[numbers[row]]] = row
        next_of[numbers[row]] += 1
