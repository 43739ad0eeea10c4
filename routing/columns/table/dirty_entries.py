"""The dirty entries of a table: those that changed in an epoch, each once, recorded by the kernel that changes them.

The kernel compares an entry's mark, the last word of its state, with the epoch's serial, so it takes no set.
"""

from __future__ import annotations

import numpy as np

from routing.columns.memory import Array

CAPACITY_MIN = 1024
"""The capacity at first."""


class DirtyEntries:
    """The entries that have changed since `take` was last called: the first `count` of `entries`."""

    def __init__(self, *, serial: int = 1, capacity: int = CAPACITY_MIN) -> None:
        self.serial = serial
        """The upper half of a dirty entry's mark; a new entry's mark is 0. With serial 0, nothing is recorded."""
        self.entries = np.empty(capacity, np.int64)
        self.count = 0

    def grow(self) -> None:
        """Double the capacity."""
        self.entries = np.concatenate([self.entries, np.empty_like(self.entries)])

    def take(self) -> Array:
        """The dirty entries; from here on none is dirty."""
        taken = self.entries[: self.count]
        self.entries = np.empty(max(CAPACITY_MIN, min(len(self.entries), 4 * self.count)), np.int64)
        self.serial += 1
        self.count = 0
        return taken
