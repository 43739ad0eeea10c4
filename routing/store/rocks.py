"""States on disk, for more of them than fit into memory: a `KeyedStore` in RocksDB.

Only the keys of the batch at hand are Python objects. `begin` reads them with one call, `end` writes what changed as
one batch, which the disk has whole or not at all. A database belongs to one operator on one worker, so that it goes,
files and all, with its operator; all databases that one maker made in a process share one memory budget.

A key is found by its bin, three bytes, and its own bytes; a state is what the codec makes of it, never pickle. Bins are
prefixes, and travel as the chunks of all stores, read off an iterator. What else there is was measured, on two busy
cores with 50-byte states; `make bench BENCH=store-layouts` compares again:

- 256 bins as column families take 20 s to make and 16 s to drop half of, against 1 ms as prefixes, and 42 MB more.
- 10^5 keys in 256 bins leave and arrive at 57,000 keys/s as chunks, at 13,000 as SST files; 10^6 keys at 84,000 and
  92,000. Files are worth their while only when bins are large, are written whole, and only RocksDB reads them.
- One range deletion per bin drops half of 10^6 keys in a millisecond; key by key, in batches, it takes a second.

What is on disk is scratch: durable state is what was written at a closed epoch. It outlives `kill -9` undamaged, up to
the last batch that was written, because RocksDB logs batches ahead; nothing is forced through the disk's own cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
)

from framework.errors import UnencodableRecord
from framework.wire import codec
from routing.bins import BinId, Bins
from routing.store.claim import Claim, claim, claim_fresh
from routing.store.errors import (
    REMEDY,
    MemoryBudgetTooSmall,
    StoreCorrupt,
    StoreFull,
    StoreUnusable,
    UnencodableState,
)
from routing.store.key_bytes import key_from_bytes, key_to_bytes
from routing.store.keyed import Entry, decode_chunk, encode_chunks

MIB = 1024 * 1024

MEMORY_BYTES = 256 * MIB
"""What a process gives to its stores unless told otherwise."""

MEMORY_BYTES_MIN = 32 * MIB
"""Less does not hold what RocksDB needs whatever its caches are."""

OVERHEAD_BYTES = 8 * MIB
"""What RocksDB takes beside its caches, and again for each database, as measured: threads, open tables, compactions."""

CACHE_SHARE_MIN = 8
"""However many databases share a budget, caches get one part in so many of it."""

BIN_BYTES = 3
"""Two would do for a bin, and not for the end of the last one."""


class RocksStore:
    """A `KeyedStore` in a RocksDB database."""

    def __init__(self, bins: Bins, claim: Claim, budget: Budget) -> None:
        self._bins = bins
        self._claim = claim
        self._places: dict[Any, bytes] = {}
        self._found: dict[Any, bytes | None] = {}
        try:
            with self._named():
                self._db = Rdict(str(claim.path / "rocks"), budget.options())
                self._counts = self._count()
        except BaseException:
            claim.release()
            raise
        self.is_open = True

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
        return RocksStore(bins, claim(Path(directory)), Budget.of(memory_bytes))

    def groups(self, rows: list[Entry]) -> Iterator[tuple[dict[Any, Any], list[Entry]]]:
        yield self.begin(key for key, _ in rows), rows

    def begin(self, keys: Iterable[Any]) -> dict[Any, Any]:
        bin_of = self._bins.of
        self._places = places = {key: _prefix(bin_of(key)) + key_to_bytes(key) for key in dict.fromkeys(keys)}
        with self._named():
            found: Any = self._db.get(list(places.values()))
        self._found = dict(zip(places, found, strict=True))
        decode = codec.decode_value
        return {key: decode(encoded) for key, encoded in self._found.items() if encoded is not None}

    def end(self, states: dict[Any, Any], *, born: list[Any], changed: Iterable[Any], gone: list[Any]) -> None:
        batch, counts = WriteBatch(raw_mode=True), dict[BinId, int]()
        for key in dict.fromkeys([*changed, *gone]):
            place, before = self._places[key], self._found[key]
            after = _encode(key, states[key]) if key in states else None
            if after == before:
                continue
            if after is None:
                batch.delete(place)
            else:
                batch[place] = after
            if after is None or before is None:
                bin_id = _bin_of(place)
                counts[bin_id] = counts.get(bin_id, 0) + (1 if before is None else -1)
        self._write(batch)
        for bin_id, change in counts.items():
            self._add(bin_id, change)
        self._places, self._found = {}, {}

    def extract(self, bin_id: BinId, chunk_bytes_max: int) -> Iterator[bytes]:
        if self._counts.pop(bin_id, 0):
            yield from encode_chunks(self._take(bin_id), chunk_bytes_max)

    def install(self, bin_id: BinId, chunk: bytes) -> None:
        prefix, batch = _prefix(bin_id), WriteBatch(raw_mode=True)
        for key, state in decode_chunk(chunk):
            batch[prefix + key_to_bytes(key)] = _encode(key, state)
        size = len(batch)
        self._write(batch)
        self._add(bin_id, size)

    def bins(self) -> dict[BinId, int]:
        return dict(self._counts)

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            with self._named():
                self._db.close()
            self._claim.release()

    def disk_bytes(self) -> int:
        """The size of the tables on disk; what is still in memory or in the log comes to a fraction of the budget."""
        return self._db.property_int_value("rocksdb.total-sst-files-size") or 0

    def _take(self, bin_id: BinId) -> Iterator[Entry]:
        """Delete a bin at once; its entries, as they were before that, one by one."""
        start, end = _prefix(bin_id), _prefix(BinId(bin_id + 1))
        reading = ReadOptions()
        reading.set_iterate_upper_bound(end)
        reading.fill_cache(False)  # type: ignore[call-arg]  # its stub lacks the argument
        with self._named():
            entries = self._db.items(from_key=start, read_opt=reading)
            self._db.delete_range(start, end)
            for place, encoded in entries:
                assert isinstance(place, bytes), place
                yield key_from_bytes(place[BIN_BYTES:]), codec.decode_value(encoded)

    def _count(self) -> dict[BinId, int]:
        counts: dict[BinId, int] = {}
        for place, _ in self._db.items():
            assert isinstance(place, bytes), place
            bin_id = _bin_of(place)
            counts[bin_id] = counts.get(bin_id, 0) + 1
        return counts

    def _add(self, bin_id: BinId, change: int) -> None:
        count = self._counts.get(bin_id, 0) + change
        if count:
            self._counts[bin_id] = count
        else:
            self._counts.pop(bin_id, None)

    def _write(self, batch: WriteBatch) -> None:
        with self._named():
            self._db.write(batch)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Call RocksDB's errors, which are plain exceptions, by their names."""
        try:
            yield
        except Exception as error:
            if type(error) is not Exception:
                raise
            raise _failure(str(error), self._claim.path) from error


class RocksMaker:
    """Makes stores in fresh directories, with one memory budget for all that a process has of them."""

    def __init__(self, directory: Path | None, memory_bytes: int) -> None:
        self.directory = directory
        self.memory_bytes = memory_bytes
        self._budget: Budget | None = None
        self._stores: list[RocksStore] = []
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
        with self._lock:
            if self._budget is None:
                self._budget = Budget.of(self.memory_bytes)
            store = RocksStore(bins, claim_fresh(self.directory), self._budget)
            self._stores = [*(other for other in self._stores if other.is_open), store]
            self._budget.share(len(self._stores))
            return store

    def disk_bytes(self) -> int:
        """The size on disk of all stores of this process that are open."""
        with self._lock:
            return sum(store.disk_bytes() for store in self._stores if store.is_open)


@dataclass(frozen=True, slots=True)
class Budget:
    """The memory that some databases share: blocks read, and what waits to be written, charged to one cache."""

    memory_bytes: int
    cache: Cache
    buffers: WriteBufferManager

    @staticmethod
    def of(memory_bytes: int) -> Budget:
        """A budget of `memory_bytes`, for one database so far."""
        cache = Cache(memory_bytes)
        buffers = WriteBufferManager.new_write_buffer_manager_with_cache(memory_bytes, False, cache)
        budget = Budget(memory_bytes, cache, buffers)
        budget.share(1)
        return budget

    def share(self, databases: int) -> None:
        """Leave room for what so many databases take beside caches, and half of the rest for malloc's losses."""
        room = self.memory_bytes - OVERHEAD_BYTES * (1 + databases)
        cache_bytes = max(room // 2, self.memory_bytes // CACHE_SHARE_MIN)
        self.cache.set_capacity(cache_bytes)
        self.buffers.set_buffer_size(cache_bytes // 2)

    def options(self) -> Options:
        """How a database keeps within it."""
        tables = BlockBasedOptions()
        tables.set_block_cache(self.cache)
        tables.set_cache_index_and_filter_blocks(True)
        tables.set_pin_l0_filter_and_index_blocks_in_cache(True)
        tables.set_bloom_filter(10, False)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(tables)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_write_buffer_manager(self.buffers)
        options.set_write_buffer_size(self.buffers.get_buffer_size() // 2)
        options.set_max_total_wal_size(self.memory_bytes)
        options.set_target_file_size_base(max(MIB, self.memory_bytes // 8))
        options.set_max_bytes_for_level_base(max(4 * MIB, self.memory_bytes // 2))
        options.set_compaction_readahead_size(256 * 1024)
        options.set_max_background_jobs(2)
        options.set_max_open_files(256)
        options.set_keep_log_file_num(1)
        options.set_stats_dump_period_sec(0)
        return options


def _prefix(bin_id: BinId) -> bytes:
    return bin_id.to_bytes(BIN_BYTES, "big")


def _bin_of(place: bytes) -> BinId:
    return BinId(int.from_bytes(place[:BIN_BYTES], "big"))


def _encode(key: Any, state: Any) -> bytes:
    try:
        return codec.encode_value(state)
    except UnencodableRecord as error:
        raise UnencodableState(
            f"the state of key {key!r}, a {type(state).__qualname__}, cannot be written to disk; {REMEDY}"
        ) from error


def _failure(text: str, path: Path) -> Exception:
    """The error to raise for what RocksDB says."""
    if any(sign in text for sign in ("No space left", "NoSpace", "File too large", "Disk quota")):
        return StoreFull(
            f"no room is left for the state in {path} ({text}); make room, or give the store another directory: "
            f"RocksStore.maker(directory=...)"
        )
    if "Corruption" in text:
        return StoreCorrupt(
            f"the state in {path} is damaged ({text}); remove it and start from what was last durably written"
        )
    return StoreUnusable(
        f"RocksDB cannot work in {path} ({text}); give the store a directory on a local disk that this process may "
        f"write to: RocksStore.maker(directory=...)"
    )
