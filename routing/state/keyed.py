"""A `BinState` for operators with a state per key: a store holds the states, and timers go along with their bins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from routing.bins import BinId
from routing.state.store import KeyedStore
from routing.state.timers import PendingTimers


class KeyedState:
    """A `BinState` over a `KeyedStore`."""

    def __init__(self, store: KeyedStore, timers: PendingTimers) -> None:
        self._store = store
        self._timers = timers

    def bins(self) -> dict[BinId, int]:
        """The bins that hold anything, with their numbers of keys."""
        return self._store.bins()

    def extract(self, bin_id: BinId, chunk_bytes_max: int) -> Iterator[bytes]:
        """Take a bin's state out, piece by piece."""
        return self._store.extract(bin_id, chunk_bytes_max)

    def install(self, bin_id: BinId, chunk: bytes) -> None:
        """Put a piece of a bin's state in."""
        self._store.install(bin_id, chunk)

    def extract_timers(self, bin_id: BinId) -> list[tuple[int, Any]]:
        """Take out a bin's timers."""
        return self._timers.extract(bin_id)

    def install_timers(self, bin_id: BinId, items: list[tuple[int, Any]]) -> None:
        """Put in a bin's timers."""
        self._timers.install(bin_id, items)

    def close(self) -> None:
        """Close the store: the operator has ended."""
        self._store.close()
