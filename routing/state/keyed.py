"""A `BinState` for operators with a state per key: a store holds the states, and timers go along with their bins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from routing.bins import BinId
from routing.state.encoding_check import EncodingCheck
from routing.state.errors import UnencodableState
from routing.state.store import Entry, KeyedStore, encode_chunks, sampled_entry_bytes
from routing.state.timers import PendingTimers

OBSTACLE_CHUNK_BYTES = 256 * 1024
"""How much is encoded at once to see whether it can be."""


class KeyedState:
    """A `BinState` over a `KeyedStore`."""

    def __init__(self, store: KeyedStore, timers: PendingTimers) -> None:
        self._store = store
        self._timers = timers
        self._check: EncodingCheck | None = None

    def kept(self, states: Mapping[Any, Any], born: Sequence[Any], rows: Sequence[Entry]) -> None:
        """The store has these states, of new keys and of those in `rows`. Hot path: once per batch."""
        if self._check is not None and rows:
            self._check.states(states, born, rows[-1][0])

    def must_travel(self, operator: str) -> None:
        """Refuse a state that cannot be encoded as soon as there is one."""
        self._check = EncodingCheck(operator)

    def obstacle(self, bin_id: BinId) -> str | None:
        """Why a bin could not move now, if so. Its timers are of keys that have states."""
        try:
            for _ in encode_chunks(self._store.unencoded(bin_id), OBSTACLE_CHUNK_BYTES):
                pass
        except UnencodableState as error:
            return str(error)
        return None

    def bins(self) -> dict[BinId, int]:
        """The bins that hold anything, with their numbers of keys."""
        return self._store.bins()

    def entry_bytes(self) -> int:
        """About how large an entry is when it moves, by a few of them."""
        return sampled_entry_bytes(self._store.some_entries())

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
