"""Which entries of a table have changed: each of them once, noted by the kernel that changes them."""

from __future__ import annotations

import numpy as np

from routing.columns.memory import Array

CHANGED_MIN = 1024
"""How many there is room for at first."""


class DirtyEntries:
    """Which entries of a table have changed since this was last asked."""

    def __init__(self, *, serial: int = 1, room: int = CHANGED_MIN) -> None:
        self.serial = serial
        """What the upper half of an entry's mark is once it is noted; it begins with 0. With 0, nothing is noted."""
        self.rows = np.empty(room, np.int64)
        self.count = 0

    def grow(self) -> None:
        """Have room for more."""
        self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])

    def take(self) -> Array:
        """The entries; the next ones are noted anew."""
        taken = self.rows[: self.count]
        self.rows = np.empty(max(CHANGED_MIN, min(len(self.rows), 4 * self.count)), np.int64)
        self.serial += 1
        self.count = 0
        return taken
