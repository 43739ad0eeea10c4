"""States in memory: a `KeyedStore` of dictionaries, with the set of keys of each bin beside them.

A record finds its state by its key alone. The bin of a key is looked up when the key is new, for when its bin moves.

A dictionary that is full is rehashed into a larger one at once: with 350,000 keys that takes 45 ms, in which nothing
else happens. So beyond some size the keys are sharded over many dictionaries, by Python's own hash; each grows alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from routing.bins import BinId, Bins
from routing.state.nan_key import may_hold_nan, one_nan
from routing.state.store import Entry, decode_chunk, encode_chunks

SINGLE_MAX = 32_768
"""The number of keys from which on they are sharded."""

SHARDS = 32
"""Enough for each to grow in a few milliseconds."""

GATHER_MAX = 16 * SHARDS
"""For batches of up to this size, states are gathered from the shards and written back, not visited shard by shard."""


class MemoryStore:
    """A `KeyedStore` in memory."""

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        self._shards: list[dict[Any, Any]] = [{}]
        self._keys: dict[BinId, dict[Any, None]] = {}
        """Dictionaries rather than sets: the garbage collector does not track those of strings and numbers, but would
        traverse every set, in a pause that grows with the state."""
        self._gathered: dict[Any, Any] = {}

    def groups(self, rows: list[Entry]) -> Iterator[tuple[dict[Any, Any], list[Entry]]]:
        if len(self._shards) == 1 or len(rows) <= GATHER_MAX:
            yield self.begin(key for key, _ in rows), rows
            return
        by_shard: dict[int, list[Entry]] = {}
        mask = len(self._shards) - 1
        if may_hold_nan([row[0] for row in rows]):
            rows = [(one_nan(key), value) for key, value in rows]
        for row in rows:
            shard = hash(row[0]) & mask
            group = by_shard.get(shard)
            if group is None:
                by_shard[shard] = [row]
            else:
                group.append(row)
        for shard, group in by_shard.items():
            yield self._shards[shard], group

    def begin(self, keys: Iterable[Any]) -> dict[Any, Any]:
        shards = self._shards
        if len(shards) == 1:
            return shards[0]
        mask = len(shards) - 1
        keys = list(keys)
        self._gathered = {key: shard[key] for key in keys if key in (shard := shards[hash(key) & mask])}
        if may_hold_nan(keys):
            for key in map(one_nan, keys):
                if key in (shard := shards[hash(key) & mask]):
                    self._gathered[key] = shard[key]
        return self._gathered

    def end(self, states: dict[Any, Any], *, born: list[Any], changed: Iterable[Any], gone: list[Any]) -> None:
        bin_of, keys = self._bins.of, self._keys
        if states is self._gathered:
            self._put_back(states, changed, gone)
        for key in born:
            keys.setdefault(bin_of(key), {})[key] = None
        for key in gone:
            if key not in states:
                self._forget(bin_of(key), key)
        if born:
            self._shard_if_large()

    def some_entries(self) -> Iterable[Entry]:
        return max(self._shards, key=len).items()

    def unencoded(self, bin_id: BinId) -> Iterable[Entry]:
        return ((key, self._shard(key)[key]) for key in self._keys.get(bin_id, ()))

    def extract(self, bin_id: BinId, chunk_bytes_max: int) -> Iterator[bytes]:
        keys = self._keys.pop(bin_id, {})
        yield from encode_chunks(self._take(keys), chunk_bytes_max)

    def install(self, bin_id: BinId, chunk: bytes) -> None:
        entries = [(one_nan(key), state) for key, state in decode_chunk(chunk)]
        for key, state in entries:
            self._shard(key)[key] = state
        self._keys.setdefault(bin_id, {}).update(dict.fromkeys(key for key, _ in entries))
        self._shard_if_large()

    def bins(self) -> dict[BinId, int]:
        return {bin_id: len(keys) for bin_id, keys in self._keys.items()}

    def close(self) -> None:
        self._shards = [{}]
        self._keys.clear()

    def _shard(self, key: Any) -> dict[Any, Any]:
        return self._shards[hash(key) & (len(self._shards) - 1)]

    def _shard_if_large(self) -> None:
        if len(self._shards) == 1 and len(self._shards[0]) > SINGLE_MAX:
            single = self._shards[0]
            self._shards = [{} for _ in range(SHARDS)]
            for key, state in single.items():
                self._shard(key)[key] = state

    def _put_back(self, states: dict[Any, Any], changed: Iterable[Any], gone: list[Any]) -> None:
        shards, mask = self._shards, len(self._shards) - 1
        for key in changed:
            if key in states or (key := one_nan(key)) in states:
                shards[hash(key) & mask][key] = states[key]
        for key in gone:
            if key not in states:
                shards[hash(key) & mask].pop(key, None)

    def _take(self, keys: dict[Any, None]) -> Iterator[Entry]:
        while keys:
            key, _ = keys.popitem()
            yield key, self._shard(key).pop(key)

    def _forget(self, bin_id: BinId, key: Any) -> None:
        keys = self._keys.get(bin_id)
        if keys is not None:
            keys.pop(key, None)
            if not keys:
                del self._keys[bin_id]
