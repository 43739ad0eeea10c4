"""A `BinState` for operators with a state per bin, a value of the user's own: the bins, in memory, and their timers.

A state that is a dictionary travels entry by entry, in chunks; any other is encoded as a whole, in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from framework.errors import TimeNotCovered, UnencodableRecord
from framework.wire import codec
from routing.bins import BinId
from routing.state.encoding_check import EncodingCheck
from routing.state.errors import UnencodableState, unencodable
from routing.state.keyed import OBSTACLE_CHUNK_BYTES
from routing.state.store import PUT_OFF, Entry, decode_chunk, encode_chunks, sampled_entry_bytes
from routing.state.timers import PendingTimers

ENTRIES = b"e"
WHOLE = b"w"


class Bin:
    """The state of one bin; `state` is the user's to change or replace."""

    __slots__ = ("_check", "_time", "_timers", "bin_id", "state")

    def __init__(self, bin_id: BinId, state: Any, timers: PendingTimers, check: EncodingCheck | None = None) -> None:
        self.bin_id = bin_id
        self.state = state
        self._timers = timers
        self._check = check
        self._time = 0

    def put_off(self, time: int, item: Any) -> None:
        """Have `item` come back when `time`, which is not before the current one, is complete."""
        if time < self._time:
            raise TimeNotCovered(
                f"bin {self.bin_id} cannot put {item!r} off until {time}: it is at {self._time}; "
                f"name that time or a later one"
            )
        if self._check is not None:
            self._check.put_off(time, item)
        self._timers.set(self.bin_id, time, item)

    def enter(self, time: int) -> None:
        """Be used at `time`."""
        self._time = time

    def leave(self) -> None:
        """Be used no more for now."""
        if self._check is not None:
            self._check.bin_state(self.state)


class PerBinState:
    """A `BinState` of bins in memory."""

    def __init__(self, initial: Callable[[], Any], timers: PendingTimers) -> None:
        self._initial = initial
        self._timers = timers
        self._bins: dict[BinId, Bin] = {}
        self._check: EncodingCheck | None = None

    def must_travel(self, operator: str) -> None:
        """Refuse a state that cannot be encoded as soon as there is one."""
        self._check = EncodingCheck(operator)

    def obstacle(self, bin_id: BinId) -> str | None:
        """Why a bin could not move now, if so."""
        try:
            if bin_id in self._bins:
                for _ in _chunks(self._bins[bin_id].state, OBSTACLE_CHUNK_BYTES, dict.items):
                    pass
            for _ in encode_chunks(self._timers.of(bin_id), OBSTACLE_CHUNK_BYTES, what=PUT_OFF):
                pass
        except UnencodableState as error:
            return str(error)
        return None

    def bin_at(self, bin_id: BinId, time: int) -> Bin:
        """The bin, made if it is new, for use at `time`."""
        found = self._bins.get(bin_id)
        if found is None:
            found = self._bins[bin_id] = Bin(bin_id, self._initial(), self._timers, self._check)
        found.enter(time)
        return found

    def bins(self) -> dict[BinId, int]:
        """The bins that have been used, with their numbers of keys: a state that is no dictionary counts as one."""
        return {bin_id: len(used.state) if type(used.state) is dict else 1 for bin_id, used in self._bins.items()}

    def entry_bytes(self) -> int:
        """About how large an entry is when it moves; not known of a state that is no dictionary."""
        largest = max((used.state for used in self._bins.values() if type(used.state) is dict), key=len, default={})
        return sampled_entry_bytes(largest.items())

    def extract(self, bin_id: BinId, chunk_bytes_max: int) -> Iterator[bytes]:
        """Take a bin's state out, piece by piece."""
        leaving = self._bins.pop(bin_id, None)
        if leaving is not None:
            yield from _chunks(leaving.state, chunk_bytes_max, _take)

    def install(self, bin_id: BinId, chunk: bytes) -> None:
        """Put a piece of a bin's state in."""
        kind, payload = chunk[:1], chunk[1:]
        if kind == WHOLE:
            self._bins[bin_id] = Bin(bin_id, codec.decode_value(payload), self._timers, self._check)
            return
        arriving = self._bins.setdefault(bin_id, Bin(bin_id, {}, self._timers, self._check))
        if payload:
            arriving.state.update(decode_chunk(payload))

    def extract_timers(self, bin_id: BinId) -> list[tuple[int, Any]]:
        """Take out a bin's timers."""
        return self._timers.extract(bin_id)

    def install_timers(self, bin_id: BinId, items: list[tuple[int, Any]]) -> None:
        """Put in a bin's timers: its state is complete."""
        self._timers.install(bin_id, items)

    def close(self) -> None:
        """Drop everything."""
        self._bins.clear()


def _chunks(
    state: Any, chunk_bytes_max: int, entries_of: Callable[[dict[Any, Any]], Iterable[Entry]]
) -> Iterator[bytes]:
    if type(state) is dict:
        yield ENTRIES  # so that an empty dictionary arrives as one
        for chunk in encode_chunks(entries_of(state), chunk_bytes_max):
            yield ENTRIES + chunk
        return
    try:
        encoded = codec.encode_value(state)
    except UnencodableRecord as error:
        raise UnencodableState(unencodable("its state", state, error)) from error
    yield WHOLE + encoded


def _take(entries: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    while entries:
        yield entries.popitem()
