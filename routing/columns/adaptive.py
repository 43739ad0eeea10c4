"""Decides whether combining the records of a batch by key, before they are sent to the keys' owners, pays.

It does if few rows come of many. A sample's number of distinct keys tells that of the whole batch, as if keys were
drawn uniformly. While combining pays, batches are combined without a sample; when it does not, batches are skipped with
exponential back-off. `operators.columns.partials` and `routing.columns.dictionary` drive it.

Decisions depend on the batches only, not on time.
"""

from __future__ import annotations

import math

SAMPLE_ROWS = 4096
"""The rows of a sample, taken while it is unknown whether combining pays."""

BACK_OFF_MAX = 64
"""The most batches that are skipped before another try."""


class CombineHeuristic:
    """One sender's estimate."""

    def __init__(self, share_max: float) -> None:
        """Combining pays if the number of keys is at most this share of the rows."""
        assert 0 < share_max < 1, share_max
        self._share_max = share_max
        self._rows_per_key = _rows_per_key(share_max)
        self._pays = False
        self._to_skip = 0
        self._back_off = 1

    def rows_to_try(self, rows: int) -> int:
        """How many rows of the next batch, which has `rows`, to combine at first: all, a sample, or none."""
        if rows * self._share_max < 1:
            return 0  # so small a batch tells nothing
        if self._to_skip:
            self._to_skip -= 1
            return 0
        return rows if self._pays else min(rows, SAMPLE_ROWS)

    def keys_max(self, tried: int, rows: int) -> int:
        """How many distinct keys `tried` rows may have, of a batch of `rows`, if combining it is to pay."""
        return max(1, int(tried * _distinct_share(self._rows_per_key * tried / rows)))

    def paid(self) -> None:
        """A batch was combined."""
        self._pays, self._back_off = True, 1

    def did_not_pay(self) -> None:
        """A batch was tried, and was not combined."""
        self._pays, self._to_skip = False, self._back_off
        self._back_off = min(2 * self._back_off, BACK_OFF_MAX)


def _distinct_share(rows_per_key: float) -> float:
    """The expected share of distinct keys among rows drawn uniformly, this many for each key that there is."""
    return -math.expm1(-rows_per_key) / rows_per_key


def _rows_per_key(share: float) -> float:
    """The inverse of `_distinct_share`, by bisection."""
    low, high = 0.0, 1 / share  # the share falls with rows per key, and at `high` it is less than `share`
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _distinct_share(middle) > share else (low, middle)
    return high
