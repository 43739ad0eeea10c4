"""Stores of states per key: what a keyed operator's backend (`keyed`) needs of one, and the chunks that bins travel in.

A chunk is rows of (key, state), encoded by the one codec, so that any store can read what any other wrote. The stores
are `memory.MemoryStore` and `rocks.RocksStore`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

from framework.errors import UnencodableRecord
from framework.wire import codec
from routing.bins import BinId, Bins
from routing.state.errors import UnencodableState, unencodable

Entry = tuple[Any, Any]
"""A key and its state."""


class KeyedStore(Protocol):
    """The states of all keys of the bins that one worker holds, for one operator."""

    def groups(self, rows: list[Entry]) -> Iterator[tuple[dict[Any, Any], list[Entry]]]:
        """Rows that begin with a key, in groups, each with what `begin` gives for it; a key is in one group.

        Call `end` for a group before the next one is asked for.
        """

    def begin(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The states of at least these keys, in a dictionary that may be changed until `end`.

        Without an `end`, another `begin` may follow; whether changes are then kept is undefined.
        """

    def end(self, states: dict[Any, Any], *, born: list[Any], changed: Iterable[Any], gone: list[Any]) -> None:
        """Keep the changes: keys that are new, keys whose state has changed, and keys that were removed."""

    def unencoded(self, bin_id: BinId) -> Iterable[Entry]:
        """What a bin holds that was not encoded yet."""

    def extract(self, bin_id: BinId, chunk_bytes_max: int) -> Iterator[bytes]:
        """Take a bin out, in chunks that are made lazily. From the first on, the bin counts as gone."""

    def install(self, bin_id: BinId, chunk: bytes) -> None:
        """Put a chunk of a bin in, from any kind of store; none of its keys is here."""

    def bins(self) -> dict[BinId, int]:
        """The bins that hold anything, with their numbers of keys."""

    def some_entries(self) -> Iterable[Entry]:
        """A few entries, if there are any; to be looked at only."""

    def close(self) -> None:
        """Release everything. Idempotent."""


SAMPLE_ENTRIES = 16
"""How many entries tell about how large they are."""

PUT_OFF = "what was put off until"
"""What an entry of timers is, in an error: a time and an item."""

StoreMaker = Callable[[Bins], KeyedStore]
"""Makes the store of one operator on one worker."""


def encode_chunks(entries: Iterable[Entry], chunk_bytes_max: int, *, what: str = "the state of key") -> Iterator[bytes]:
    """Encode entries into chunks of at most `chunk_bytes_max`, except for an entry that alone exceeds it.

    An entry that cannot be encoded is an `UnencodableState`, which says `what` it is.
    """
    rows: list[Entry] = []
    aim = 1
    for entry in entries:
        rows.append(entry)
        if len(rows) >= aim:
            encoded = _encode(rows, what)
            if len(encoded) <= chunk_bytes_max or len(rows) == 1:
                yield encoded
            else:
                yield from _halve(rows, chunk_bytes_max, what)
            per_entry = max(1, len(encoded) // len(rows))
            aim = max(1, chunk_bytes_max * 3 // 4 // per_entry)
            rows = []
    if rows:
        yield from _halve(rows, chunk_bytes_max, what)


def sampled_entry_bytes(entries: Iterable[Entry]) -> int:
    """The mean size of the first few entries as they would be encoded; 0 if there are none, or they cannot be."""
    rows = list(islice(entries, SAMPLE_ENTRIES))
    try:
        return len(codec.encode_rows(rows)) // len(rows) if rows else 0
    except UnencodableRecord:
        return 0


def decode_chunk(chunk: bytes) -> list[Entry]:
    """The entries of a chunk."""
    return codec.decode_rows(chunk)


def _halve(rows: list[Entry], chunk_bytes_max: int, what: str) -> Iterator[bytes]:
    encoded = _encode(rows, what)
    if len(encoded) <= chunk_bytes_max or len(rows) == 1:
        yield encoded
        return
    middle = len(rows) // 2
    yield from _halve(rows[:middle], chunk_bytes_max, what)
    yield from _halve(rows[middle:], chunk_bytes_max, what)


def _encode(rows: list[Entry], what: str) -> bytes:
    try:
        return codec.encode_rows(rows)
    except UnencodableRecord as error:
        for key, state in rows:
            try:
                codec.encode_rows([(key, state)])
            except UnencodableRecord as reason:
                raise UnencodableState(unencodable(f"{what} {key!r}", state, reason)) from error
        raise
