"""A `BinState` for operators with a state per bin, a value of the user's own: the bins, in memory, and their timers.

A state that is a dictionary travels entry by entry, in chunks; any other is encoded as a whole and travels in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from framework.errors import TimeNotCovered, UnencodableRecord
from framework.wire import codec
from routing.bins import BinId
from routing.state.errors import REMEDY, UnencodableState
from routing.state.store import decode_chunk, encode_chunks
from routing.state.timers import PendingTimers

ENTRIES = b"e"
PIECE = b"p"


class Bin:
    """The state of one bin; `state` is the user's to change or replace."""

    __slots__ = ("_timers", "_time", "bin_id", "state")

    def __init__(self, bin_id: BinId, state: Any, timers: PendingTimers) -> None:
        self.bin_id = bin_id
        self.state = state
        self._timers = timers
        self._time = 0

    def put_off(self, time: int, item: Any) -> None:
        """Have `item` come back when `time`, which is not before the current one, is complete."""
        if time < self._time:
            raise TimeNotCovered(
                f"bin {self.bin_id} cannot put {item!r} off until {time}: it is at {self._time}; "
                f"name that time or a later one"
            )
        self._timers.set(self.bin_id, time, item)

    def enter(self, time: int) -> None:
        """Be used at `time`."""
        self._time = time


class PerBinState:
    """A `BinState` of bins in memory."""

    def __init__(self, initial: Callable[[], Any], timers: PendingTimers) -> None:
        self._initial = initial
        self._timers = timers
        self._bins: dict[BinId, Bin] = {}
        self._pieces: dict[BinId, list[bytes]] = {}

    def bin_at(self, bin_id: BinId, time: int) -> Bin:
        """The bin, made if it is new, for use at `time`."""
        found = self._bins.get(bin_id)
        if found is None:
            found = self._bins[bin_id] = Bin(bin_id, self._initial(), self._timers)
        found.enter(time)
        return found

    def bins(self) -> dict[BinId, int]:
        """The bins that have been used, with their numbers of keys: a state that is no dictionary counts as one."""
        return {bin_id: len(used.state) if type(used.state) is dict else 1 for bin_id, used in self._bins.items()}

    def extract(self, bin_id: BinId, chunk_bytes_max: int) -> Iterator[bytes]:
        """Take a bin's state out, piece by piece."""
        leaving = self._bins.pop(bin_id, None)
        if leaving is None:
            return
        if type(leaving.state) is dict:
            yield ENTRIES  # so that an empty dictionary arrives as one
            for chunk in encode_chunks(_take(leaving.state), chunk_bytes_max):
                yield ENTRIES + chunk
            return
        try:
            encoded = codec.encode_value(leaving.state)
        except UnencodableRecord as error:
            kind = type(leaving.state).__qualname__
            raise UnencodableState(f"its state, a {kind}, cannot be encoded; {REMEDY}") from error
        for start in range(0, len(encoded), chunk_bytes_max):
            yield PIECE + encoded[start : start + chunk_bytes_max]

    def install(self, bin_id: BinId, chunk: bytes) -> None:
        """Put a piece of a bin's state in."""
        kind, payload = chunk[:1], chunk[1:]
        if kind == PIECE:
            self._pieces.setdefault(bin_id, []).append(payload)
            return
        arriving = self._bins.setdefault(bin_id, Bin(bin_id, {}, self._timers))
        if payload:
            arriving.state.update(decode_chunk(payload))

    def extract_timers(self, bin_id: BinId) -> list[tuple[int, Any]]:
        """Take out a bin's timers."""
        return self._timers.extract(bin_id)

    def install_timers(self, bin_id: BinId, items: list[tuple[int, Any]]) -> None:
        """Put in a bin's timers: its state is complete."""
        pieces = self._pieces.pop(bin_id, None)
        if pieces is not None:
            self._bins[bin_id] = Bin(bin_id, codec.decode_value(b"".join(pieces)), self._timers)
        self._timers.install(bin_id, items)

    def close(self) -> None:
        """Drop everything."""
        self._bins.clear()
        self._pieces.clear()


def _take(entries: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    while entries:
        yield entries.popitem()
