"""The state backend of an operator on one worker, as F and S see it: bins that are taken out and put in by chunks.

Implemented over a store of states per key (`keyed`), for states per bin (`per_bin`), and for tables and windows of
columns (`routing.columns.state`, `routing.columns.window_state`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from routing.bins import BinId


class BinState(Protocol):
    """Where the bins of one operator on one worker are."""

    def bins(self) -> dict[BinId, int]:
        """The bins that hold anything, with their numbers of keys."""

    def entry_bytes(self) -> int:
        """About how large an entry is when it moves; 0 if that is not known."""

    def must_travel(self, operator: str) -> None:
        """Bins may move from now on: a state of `operator` that cannot is refused as soon as there is one."""

    def obstacle(self, bin_id: BinId) -> str | None:
        """Why a bin could not move now, if so. It costs what encoding the bin does."""

    def extract(self, bin_id: BinId, chunk_bytes_max: int) -> Iterator[bytes]:
        """Take a bin's state out, piece by piece; nobody else uses the bin meanwhile."""

    def install(self, bin_id: BinId, chunk: bytes) -> None:
        """Put a piece of a bin's state in, from whatever kind of state it came."""

    def extract_timers(self, bin_id: BinId) -> list[tuple[int, Any]]:
        """Take out a bin's timers: items, each with its time."""

    def install_timers(self, bin_id: BinId, items: list[tuple[int, Any]]) -> None:
        """Put in a bin's timers, after all of its state."""

    def close(self) -> None:
        """Release everything: the dataflow has ended."""
