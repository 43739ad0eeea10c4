"""The bins of windows on columns: a table for each open window, keyed alike.

A key has the same bin in every window, so a bin's state is what it has in each of the tables. A chunk is a chunk of one
table, followed by the start of its window.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from routing.bins import BinId, Bins
from routing.columns.keys import KeyColumns
from routing.columns.state import TableState
from routing.columns.table.dirty_entries import DirtyEntries
from routing.columns.table.table import Table
from routing.state.timers import PendingTimers

START_BYTES = 8


class OpenWindow:
    """The keys with records in one window, and their states."""

    def __init__(self, bins: Bins, state_words: int, key: KeyColumns, state: pa.Schema, timers: PendingTimers) -> None:
        self.table = Table(bins, state_words)
        self.dirty = DirtyEntries()
        self.bin_state = TableState(self.table, key, state, timers)
        self._seen = np.zeros(bins.count, np.bool_)

    def new_bins(self) -> list[BinId]:
        """The bins that have their first key in this window since the last call.

        A bin that has left is not new when it returns: it brings its timers with its keys.
        """
        used = self.table.bins_in_use()
        new = np.flatnonzero(used & ~self._seen)
        if len(new):
            self._seen |= used
        return [BinId(int(bin_id)) for bin_id in new]


class WindowState:
    """A `BinState` over the open windows, by their starts."""

    def __init__(self, bins: Bins, state_words: int, key: KeyColumns, state: pa.Schema, timers: PendingTimers) -> None:
        self._make = partial(OpenWindow, bins, state_words, key, state, timers)
        self._timers = timers
        self._open: dict[int, OpenWindow] = {}
        TableState.warm_up(key, state)

    def window(self, start: int) -> OpenWindow:
        """The window that begins at `start`, opened if it was not."""
        window = self._open.get(start)
        if window is None:
            window = self._open[start] = self._make()
        return window

    def drop(self, start: int) -> None:
        """Drop a window, with its table."""
        del self._open[start]

    def bins(self) -> dict[BinId, int]:
        """The bins that have keys, with their numbers of keys, counted in each window."""
        totals: dict[BinId, int] = {}
        for window in self._open.values():
            for bin_id, keys in window.table.keys_per_bin().items():
                totals[bin_id] = totals.get(bin_id, 0) + keys
        return totals

    def entry_bytes(self) -> int:
        """The mean size of an entry, in the window where it is largest."""
        return max((window.table.entry_bytes for window in self._open.values()), default=0)

    def must_travel(self, operator: str) -> None:
        """Columns always can."""

    def obstacle(self, bin_id: BinId) -> None:
        """There is none."""

    def extract(self, bin_id: BinId, chunk_bytes_max: int) -> Iterator[bytes]:
        """Remove a bin's state, in chunks; a window that is left empty is dropped."""
        for start in sorted(self._open):
            window = self._open[start]
            for chunk in window.bin_state.extract(bin_id, chunk_bytes_max):
                yield chunk + start.to_bytes(START_BYTES, "little", signed=True)
            if not len(window.table):
                self.drop(start)

    def install(self, bin_id: BinId, chunk: bytes) -> None:
        """Install a chunk of a bin's state."""
        start = int.from_bytes(chunk[-START_BYTES:], "little", signed=True)
        self.window(start).bin_state.install(bin_id, memoryview(chunk)[:-START_BYTES])

    def extract_timers(self, bin_id: BinId) -> list[tuple[int, Any]]:
        """Remove a bin's timers."""
        return self._timers.extract(bin_id)

    def install_timers(self, bin_id: BinId, items: list[tuple[int, Any]]) -> None:
        """Install a bin's timers."""
        self._timers.install(bin_id, items)

    def close(self) -> None:
        """Drop all windows."""
        self._open.clear()
