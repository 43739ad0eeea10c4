"""States on disk, for more of them than fit into memory: a `KeyedStore` in RocksDB.

Only the keys of the batch at hand are Python objects. `begin` reads them with one call, `end` writes what changed as
one atomic batch. A database belongs to one operator on one worker, so that it goes, files and all, with its operator;
all databases that one maker made in a process share one memory budget (`rocks_budget`).

A database key is the bin, three bytes, and the key's own bytes (`key_bytes`); a state is encoded by the codec, never
pickled. So bins are key prefixes; they travel as chunks, like those of all stores, read off an iterator. The
alternatives were measured, on two busy cores with 50-byte states; `make bench BENCH=store-layouts` compares again:

- 256 bins as column families take 20 s to make and 16 s to drop half of, against 1 ms as prefixes, and 42 MB more.
- 10^5 keys in 256 bins leave and arrive at 57,000 keys/s as chunks, at 13,000 as SST files; 10^6 keys at 84,000 and
  92,000. Files are worth their while only when bins are large, are written whole, and only RocksDB reads them.
- One range deletion per bin drops half of 10^6 keys in a millisecond; key by key, in batches, it takes a second.

What is on disk is scratch: a job that fails starts again from its input. It outlives `kill -9` undamaged, up to the
last batch that was written, because RocksDB has a write-ahead log; nothing is forced through the disk's own cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from rocksdict import WriteBatch

from framework.errors import UnencodableRecord
from framework.wire import codec
from routing.bins import BinId, Bins
from routing.state.database import BIN_BYTES, Database, bin_of, prefix
from routing.state.directory_lock import lock_directory, lock_fresh_directory
from routing.state.errors import MemoryBudgetTooSmall, UnencodableState, unencodable
from routing.state.key_bytes import key_from_bytes, key_to_bytes
from routing.state.nan_key import one_nan
from routing.state.rocks_budget import MEMORY_BYTES, MEMORY_BYTES_MIN, Budget
from routing.state.store import Entry, decode_chunk, encode_chunks


class RocksStore:
    """A `KeyedStore` in a RocksDB database."""

    def __init__(self, bins: Bins, database: Database) -> None:
        self._bins = bins
        self._db = database
        self._db_keys: dict[Any, bytes] = {}
        self._found: dict[Any, bytes | None] = {}
        try:
            self._counts = self._count()
        except BaseException:
            database.close()
            raise

    @staticmethod
    def maker(directory: Path | str | None = None, memory_bytes: int = MEMORY_BYTES) -> RocksMaker:
        """What an operator takes as its `store`.

        The state lies in fresh directories within `directory`, by default among the temporary files (`TMPDIR`; see that
        this is a disk), and is removed when the job ends. `memory_bytes` are for all stores that the maker makes in one
        process; have one maker for all workers, made before they run.
        """
        return RocksMaker(None if directory is None else Path(directory), memory_bytes)

    @staticmethod
    def open(bins: Bins, directory: Path | str, memory_bytes: int = MEMORY_BYTES) -> RocksStore:
        """A store in `directory` itself, with the state that is there; it stays when the store is closed."""
        return RocksStore(bins, Database(lock_directory(Path(directory)), Budget.of(memory_bytes).options()))

    def groups(self, rows: list[Entry]) -> Iterator[tuple[dict[Any, Any], list[Entry]]]:
        yield self.begin(key for key, _ in rows), rows

    def begin(self, keys: Iterable[Any]) -> dict[Any, Any]:
        bin_of_key = self._bins.of
        unique = dict.fromkeys(map(one_nan, keys))
        self._db_keys = db_keys = {key: prefix(bin_of_key(key)) + key_to_bytes(key) for key in unique}
        self._found = dict(zip(db_keys, self._db.get(list(db_keys.values())), strict=True))
        decode = codec.decode_value
        return {key: decode(encoded) for key, encoded in self._found.items() if encoded is not None}

    def end(self, states: dict[Any, Any], *, born: list[Any], changed: Iterable[Any], gone: list[Any]) -> None:
        batch, counts = WriteBatch(raw_mode=True), dict[BinId, int]()
        for key in dict.fromkeys(map(one_nan, [*changed, *gone])):
            db_key, before = self._db_keys[key], self._found[key]
            after = _encode(key, states[key]) if key in states else None
            if after == before:
                continue
            if after is None:
                batch.delete(db_key)
            else:
                batch[db_key] = after
            if after is None or before is None:
                bin_id = bin_of(db_key)
                counts[bin_id] = counts.get(bin_id, 0) + (1 if before is None else -1)
        self._db.write(batch)
        for bin_id, change in counts.items():
            self._add(bin_id, change)
        self._db_keys, self._found = {}, {}

    def unencoded(self, bin_id: BinId) -> Iterable[Entry]:
        return ()

    def extract(self, bin_id: BinId, chunk_bytes_max: int) -> Iterator[bytes]:
        if self._counts.pop(bin_id, 0):
            yield from encode_chunks(self._take(bin_id), chunk_bytes_max)

    def install(self, bin_id: BinId, chunk: bytes) -> None:
        start, batch = prefix(bin_id), WriteBatch(raw_mode=True)
        for key, state in decode_chunk(chunk):
            batch[start + key_to_bytes(key)] = _encode(key, state)
        size = len(batch)
        self._db.write(batch)
        self._add(bin_id, size)

    def bins(self) -> dict[BinId, int]:
        return dict(self._counts)

    def some_entries(self) -> Iterable[Entry]:
        return ((key_from_bytes(db_key[BIN_BYTES:]), codec.decode_value(value)) for db_key, value in self._db.items())

    def close(self) -> None:
        self._db.close()

    def _take(self, bin_id: BinId) -> Iterator[Entry]:
        for key, encoded in self._db.take(bin_id):
            yield key_from_bytes(key), codec.decode_value(encoded)

    def _count(self) -> dict[BinId, int]:
        counts: dict[BinId, int] = {}
        for db_key, _ in self._db.items():
            bin_id = bin_of(db_key)
            counts[bin_id] = counts.get(bin_id, 0) + 1
        return counts

    def _add(self, bin_id: BinId, change: int) -> None:
        count = self._counts.get(bin_id, 0) + change
        if count:
            self._counts[bin_id] = count
        else:
            self._counts.pop(bin_id, None)


class RocksMaker:
    """Makes stores in fresh directories, with one memory budget for all that a process has of them."""

    def __init__(self, directory: Path | None, memory_bytes: int) -> None:
        self.directory = directory
        self.memory_bytes = memory_bytes
        self._budget: Budget | None = None
        self._databases: list[Database] = []
        self._lock = Lock()
        if memory_bytes < MEMORY_BYTES_MIN:
            raise MemoryBudgetTooSmall(
                f"stores in RocksDB cannot work within memory_bytes={memory_bytes!r}; give the stores of a process "
                f"{MEMORY_BYTES_MIN:,} bytes or more, or keep the state in memory"
            )

    def __reduce__(self) -> tuple[type[RocksMaker], tuple[Path | None, int]]:
        """A copy, such as one that is shipped to another process, has a budget and stores of its own."""
        return RocksMaker, (self.directory, self.memory_bytes)

    def __call__(self, bins: Bins) -> RocksStore:
        """A new store. Workers that are threads of one process call this at the same time."""
        database, _ = self._database()
        return RocksStore(bins, database)

    def behind_table(self) -> tuple[Database, Budget]:
        """A new database for what a table of columns has no room for, and the budget that says how much it has."""
        return self._database(behind_table=True)

    def disk_bytes(self) -> int:
        """The size on disk of all stores of this process that are open."""
        with self._lock:
            return sum(database.disk_bytes() for database in self._databases if database.is_open)

    def _database(self, *, behind_table: bool = False) -> tuple[Database, Budget]:
        with self._lock:
            if self._budget is None:
                self._budget = Budget.of(self.memory_bytes)
            self._databases = [database for database in self._databases if database.is_open]
            tables = sum(database.behind_table for database in self._databases) + behind_table
            self._budget.share(databases=len(self._databases) + 1, tables=tables)
            options = self._budget.options(behind_table=behind_table)
            self._databases.append(Database(lock_fresh_directory(self.directory), options, behind_table=behind_table))
            return self._databases[-1], self._budget


def _encode(key: Any, state: Any) -> bytes:
    try:
        return codec.encode_value(state)
    except UnencodableRecord as error:
        raise UnencodableState(
            unencodable(f"the state of key {key!r}", state, error, verb="written to disk")
        ) from error
