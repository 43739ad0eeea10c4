"""From rows to columns, for encodings that want a list per field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SLICE_ROWS = 1024


def transpose(rows: Sequence[Any]) -> list[list[Any]]:
    """The columns of `rows`; `ValueError` if these differ in length. Hot path: everything per record is in C.

    >>> transpose([("tea", 2), ("milk", 1)])
    [['tea', 'milk'], [2, 1]]
    """
    # Slice by slice: `zip` goes round all its arguments per column, and many thousands do not fit into a cache.
    columns = [list(column) for column in zip(*rows[:SLICE_ROWS], strict=True)]
    for start in range(SLICE_ROWS, len(rows), SLICE_ROWS):
        more = list(zip(*rows[start : start + SLICE_ROWS], strict=True))
        for column, values in zip(columns, more, strict=True):
            column += values
    return columns
