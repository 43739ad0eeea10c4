"""What F and S need of an operator's state on one worker, wherever it is kept: bins, taken out and put in by chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from routing.bins import BinId


class BinState(Protocol):
    """Where the bins of one operator on one worker are."""

    def bins(self) -> dict[BinId, int]:
        """The bins that hold anything, with their numbers of keys."""

    def extract(self, bin_id: BinId, chunk_bytes_max: int) -> Iterator[bytes]:
        """Take a bin's state out, piece by piece; nobody else uses the bin meanwhile."""

    def install(self, bin_id: BinId, chunk: bytes) -> None:
        """Put a piece of a bin's state in, from whatever kind of state it came."""

    def extract_timers(self, bin_id: BinId) -> list[tuple[int, Any]]:
        """Take out what a bin has put off, with its times."""

    def install_timers(self, bin_id: BinId, items: list[tuple[int, Any]]) -> None:
        """Put in what a bin has put off."""

    def close(self) -> None:
        """Let go of everything: the dataflow has ended."""
