"""A RocksDB database of one operator on one worker: bytes by bin and key, and RocksDB's errors by their names.

`RocksStore` keeps its states in one, as do tables of columns that spill to disk (`routing.columns.table.tiered`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict, ReadOptions, WriteBatch, WriteOptions

from framework.errors import WorldError
from routing.bins import BinId
from routing.state.directory_lock import DirectoryLock
from routing.state.errors import StoreCorrupt, StoreFull, StoreUnusable

BIN_BYTES = 3
"""Two would do for a bin, but not for the upper bound of the last one."""

GET_KEYS_MAX = 512
"""The keys read by one call, which keeps a block of 4 kB in memory for each until it returns."""


class Database:
    """A database in a locked directory, which it releases when it is closed. A key's bytes begin with its bin."""

    def __init__(self, directory: DirectoryLock, options: Options, *, behind_table: bool = False) -> None:
        """Behind a table it has no write-ahead log: without the table, what is on disk is of no use."""
        self.behind_table = behind_table
        self._directory = directory
        self._failed = False
        self._writing = WriteOptions()
        self._writing.disable_wal = behind_table  # type: ignore[method-assign, assignment]  # its stub calls it a method
        try:
            with self._translate_errors():
                self._db = Rdict(str(directory.path / "rocks"), options)
        except BaseException:
            directory.release()
            raise
        self.is_open = True

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each of these keys, or None."""
        found: list[bytes | None] = []
        with self._translate_errors():
            for start in range(0, len(keys), GET_KEYS_MAX):
                some: Any = self._db.get([*keys[start : start + GET_KEYS_MAX]])
                found += some
        return found

    def write(self, batch: WriteBatch) -> None:
        """Write a batch, whole or not at all."""
        with self._translate_errors():
            self._db.write(batch, self._writing)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys and their values."""
        with self._translate_errors():
            yield from self._raw()

    def take(self, bin_id: BinId) -> Iterator[tuple[bytes, bytes]]:
        """Delete a bin at once; yield the keys it had, without the bin's bytes, and their values."""
        start, end = prefix(bin_id), prefix(BinId(bin_id + 1))
        reading = ReadOptions()
        reading.set_iterate_upper_bound(end)
        reading.fill_cache(False)  # type: ignore[call-arg]  # its stub lacks the argument
        with self._translate_errors():
            entries = self._raw(start, reading)
            self._db.delete_range(start, end, write_opt=self._writing)
            for key, encoded in entries:
                yield key[BIN_BYTES:], encoded

    def disk_bytes(self) -> int:
        """The size of the tables on disk; what is still in memory or in the log comes to a fraction of the budget."""
        return self._db.property_int_value("rocksdb.total-sst-files-size") or 0

    def close(self) -> None:
        """Close the database and release its directory. Idempotent.

        Closing writes what is still in memory. Where that fails, it is told, unless the directory is removed anyway, or
        the database has failed before: that is the error to report, and RocksDB only says now that there was one.
        """
        if not self.is_open:
            return
        self.is_open = False
        told = self._failed or self._directory.temporary
        try:
            with self._translate_errors():
                self._db.close()
        except WorldError:
            if not told:
                raise
        finally:
            self._directory.release()

    def _raw(self, start: bytes | None = None, reading: ReadOptions | None = None) -> Any:
        return self._db.items(from_key=start, read_opt=reading)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise RocksDB's errors, which are plain exceptions, as ours."""
        try:
            yield
        except Exception as error:
            if type(error) is not Exception:
                raise
            self._failed = True
            raise _failure(str(error), self._directory.path) from error


def prefix(bin_id: BinId) -> bytes:
    """What the keys of a bin begin with."""
    return bin_id.to_bytes(BIN_BYTES, "big")


def bin_of(key: bytes) -> BinId:
    """The bin of a key."""
    return BinId(int.from_bytes(key[:BIN_BYTES], "big"))


def _failure(text: str, path: Path) -> WorldError:
    """The error to raise for what RocksDB says."""
    if any(sign in text for sign in ("No space left", "NoSpace", "File too large", "Disk quota")):
        return StoreFull(
            f"no room is left for the state in {path} ({text}); make room, or give the store another directory: "
            f"RocksStore.maker(directory=...)"
        )
    if "Corruption" in text:
        return StoreCorrupt(
            f"the state in {path} is damaged ({text}); remove it, and start the job again from its input"
        )
    return StoreUnusable(
        f"RocksDB cannot work in {path} ({text}); give the store a directory on a local disk that this process may "
        f"write to: RocksStore.maker(directory=...)"
    )
