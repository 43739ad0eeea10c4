"""Whether it pays to combine the records of a batch by their keys before they are sent to the keys' owners.

It does if few rows come of many. Some rows of a batch are looked at first, and from how many different keys these have
follows how many all of them will have, were each key as likely as any other. While it pays, the next batch is combined
without a look. When it does not, nothing is tried for a while, which doubles until it pays again.

What is decided depends on what was seen, and on nothing else.
"""

from __future__ import annotations

import math

SAMPLE_ROWS = 4096
"""So many rows are looked at first, where it is not known whether to combine pays."""

BACK_OFF_MAX = 64
"""At most so many batches are sent as they are before another look."""


class CombineHeuristic:
    """What one sender knows of its batches."""

    def __init__(self, share_max: float) -> None:
        """It pays if there are at most so many keys, as a share of the rows."""
        assert 0 < share_max < 1, share_max
        self._share_max = share_max
        self._rows_per_key = _rows_per_key(share_max)
        self._pays = False
        self._passed_over = 0
        self._back_off = 1

    def rows_to_try(self, rows: int) -> int:
        """How many rows of the next batch, which has so many, to combine at first: all, some, or none at all."""
        if rows * self._share_max < 1:
            return 0  # which tells nothing of others
        if self._passed_over:
            self._passed_over -= 1
            return 0
        return rows if self._pays else min(rows, SAMPLE_ROWS)

    def keys_max(self, tried: int, rows: int) -> int:
        """How many keys the rows that are tried, of so many, may have for all of them to pay."""
        return max(1, int(tried * _distinct_share(self._rows_per_key * tried / rows)))

    def paid(self) -> None:
        """A batch was combined."""
        self._pays, self._back_off = True, 1

    def did_not_pay(self) -> None:
        """A batch was tried, and is sent as it is."""
        self._pays, self._passed_over = False, self._back_off
        self._back_off = min(2 * self._back_off, BACK_OFF_MAX)


def _distinct_share(rows_per_key: float) -> float:
    """Of rows drawn at random, how many have a key that none before them has, as a share of them."""
    return -math.expm1(-rows_per_key) / rows_per_key


def _rows_per_key(share: float) -> float:
    """How many rows per key, of all keys that may be drawn, give this share of distinct ones."""
    low, high = 0.0, 1 / share  # the share of `high` is less than what is asked for, and falls
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _distinct_share(middle) > share else (low, middle)
    return high
