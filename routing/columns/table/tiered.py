"""A table that spills to a database: more keys than fit into memory, unknown to compiled code.

*A key is in the table or in the database, never in both.* Before a batch is applied, those of its keys that are on disk
are moved into the table: `fetch`. After it, if the table exceeds its budget, some of its keys are moved to disk:
`spill`. The victims are whole bins, round-robin, and per batch as many keys as the table has grown by and some more, so
that no batch waits for a whole bin.

With outputs per epoch, the keys of the current epoch are pinned, since outputs refer to their entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
from rocksdict import WriteBatch

from routing.bins import BinId, Bins
from routing.columns.compiled import kernel
from routing.columns.keys import KeyColumns, Keys
from routing.columns.memory import Array, address_of
from routing.columns.table.db_keys import db_keys, decode_db_keys, missing_rows
from routing.columns.table.entries import insert, meta_address, remove
from routing.columns.table.layout import HALF_BITS, LINKS, NO_ENTRY, PAD, STATE, WIDTH, TableView, size_of
from routing.columns.table.table import Table
from routing.state.database import Database

EXTRA_KEYS = 256
"""How many more keys than the table has grown by are spilled at a time."""

ROWS_MIN = 4096
"""A part of a batch has at least this many rows, however small the budget."""

ROW_BYTES = 512
"""A part of a batch has at most one row per this much of the budget: eight times what most keys take."""

SCANNED_PER_VICTIM_MAX = 16
"""How many entries per victim are scanned at most, since those of the current epoch are pinned."""

Epoch = Callable[[], int]
"""The serial of the current epoch: the upper half of the last word of a state that changed in it."""


class TableBudget(Protocol):
    """The memory that a table may use; it changes as tables and stores come and go."""

    table_bytes: int


class TieredTable:
    """A table, and a database for the keys that exceed its budget."""

    def __init__(self, table: Table, bins: Bins, database: Database, budget: TableBudget, epoch: Epoch | None) -> None:
        """With an `epoch`, the last word of a state is its epoch's mark, and is not stored in the database."""
        self.table = table
        self._bins = bins
        self._database = database
        self._budget = budget
        self._epoch = epoch
        self._words = table.state_words - (epoch is not None)
        self._counts = np.zeros(bins.count, np.int64)
        """The number of keys of each bin in the database."""
        self._total = 0
        self._next_bin = 0
        self._is_begun = False
        """Whether some keys of the next bin are spilled: then the others follow, even within the budget."""
        self._keys_before = 0

    @staticmethod
    def warm_up(key: KeyColumns, state_words: int) -> None:
        """Compile what `fetch` and `spill` call, before records wait for it."""
        table, on_disk = Table(Bins(1), state_words), np.ones(1, np.int64)
        keys = key.keys(pa.RecordBatch.from_pylist([dict.fromkeys(key.names)], schema=key.schema))
        rows = missing_rows(table, keys, on_disk)
        insert_rows(table, keys, rows, np.zeros((1, state_words), np.uint64))
        assert len(db_keys(keys.offsets, keys.data, keys.nulls, rows, on_disk - 1)) == 1
        entries, bins, _, _ = choose_victims(table, 0, wanted=1, only_this=False, epoch=-1)
        assert len(db_keys(*table.gather(entries), np.arange(1), bins)) == 1
        extract_entries(table, entries, bins, state_words)

    @property
    def state_words(self) -> int:
        """How many words a state has in the table."""
        return self.table.state_words

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A batch in slices whose keys fit into the budget; call `spill` after each."""
        rows_max = max(ROWS_MIN, self._budget.table_bytes // ROW_BYTES)
        if len(batch) <= rows_max:
            yield batch
            return
        for start in range(0, len(batch), rows_max):
            yield batch.slice(start, rows_max)

    def fetch(self, keys: Keys) -> None:
        """Move those of these keys that are on disk into the table."""
        if not self._total:
            return
        rows = missing_rows(self.table, keys, self._counts)
        if not len(rows):
            return
        rows = rows[np.argsort(keys.hashes[rows])]  # by bins, so that neighbours share a block
        bins = (keys.hashes[rows] >> np.uint64(self._bins.shift)).astype(np.int64) if self._bins.count > 1 else 0 * rows
        sought = db_keys(keys.offsets, keys.data, keys.nulls, rows, bins)
        found = self._database.get(sought)
        here = [number for number, state in enumerate(found) if state is not None]
        if not here:
            return
        batch = WriteBatch(raw_mode=True)
        for number in here:
            batch.delete(sought[number])
        self._database.write(batch)
        states = np.zeros((len(here), self.state_words), np.uint64)
        states[:, : self._words] = self._states([state for state in found if state is not None])
        insert_rows(self.table, keys, rows[here], states)
        self._count(bins[here], -1)

    def spill(self) -> None:
        """Move some keys to disk, if the table exceeds its budget, or a bin is spilled in part."""
        is_over = self.table.used_bytes > self._budget.table_bytes
        wanted = max(0, len(self.table) - self._keys_before) + EXTRA_KEYS
        if is_over or self._is_begun:
            epoch = -1 if self._epoch is None else self._epoch()
            entries, bins, self._next_bin, self._is_begun = choose_victims(
                self.table, self._next_bin, wanted=wanted, only_this=not is_over, epoch=epoch
            )
            if len(entries):
                self._spill_entries(entries, bins)
        self._keys_before = len(self.table)

    def install(self, keys: Keys, states: Array) -> None:
        """Insert keys that are absent, with their states, a row of words each."""
        self.table.install(keys, states)
        self.spill()

    def extract(self, bin_id: BinId, bytes_max: int) -> Iterator[tuple[Array, Array, Array, Array]]:
        """Remove a bin, in chunks as a table does. Between two of them, some of its keys may be spilled."""
        while self.keys_per_bin().get(bin_id):
            yield from self._extract_from_disk(bin_id, bytes_max)
            yield from self.table.extract(bin_id, bytes_max)

    @property
    def entry_bytes(self) -> int:
        """The mean size of an entry in memory."""
        return self.table.entry_bytes

    def keys_per_bin(self) -> dict[BinId, int]:
        """The bins that have keys, with their numbers of keys."""
        found = self.table.keys_per_bin()
        for bin_id in map(BinId, np.flatnonzero(self._counts).tolist()):
            found[bin_id] = found.get(bin_id, 0) + int(self._counts[bin_id])
        return found

    def close(self) -> None:
        """Release the memory, and the database."""
        self.table.close()
        self._database.close()

    def _spill_entries(self, entries: Array, bins: Array) -> None:
        found = db_keys(*self.table.gather(entries), np.arange(len(entries)), bins)
        states, size = extract_entries(self.table, entries, bins, self._words).tobytes(), 8 * self._words
        batch = WriteBatch(raw_mode=True)
        for number, key in enumerate(found):
            batch.put(key, states[number * size : (number + 1) * size])
        self._database.write(batch)
        self._count(bins, 1)
        if not len(self.table):
            self.table.close()  # to release its memory

    def _extract_from_disk(self, bin_id: BinId, bytes_max: int) -> Iterator[tuple[Array, Array, Array, Array]]:
        count = int(self._counts[bin_id])
        if not count:
            return
        self._counts[bin_id] = 0
        self._total -= count
        found: list[bytes] = []
        states: list[bytes] = []
        size = 0
        for key, state in self._database.take(bin_id):
            size += len(key) + 3 + len(state)
            if found and size > bytes_max:
                yield *decode_db_keys(found), self._states(states)
                found, states, size = [], [], len(key) + 3 + len(state)
            found.append(key)
            states.append(state)
        yield *decode_db_keys(found), self._states(states)

    def _states(self, encoded: list[bytes]) -> Array:
        return np.frombuffer(b"".join(encoded), np.uint64).reshape(len(encoded), self._words)

    def _count(self, bins: Array, change: int) -> None:
        np.add.at(self._counts, bins, change)
        self._total += change * len(bins)


def insert_rows(table: Table, keys: Keys, rows: Array, states: Array) -> None:
    """Insert the keys at `rows`, which are absent from a table, with their states."""
    at, arrays = 0, (keys.hashes, keys.offsets, keys.data, keys.nulls)
    while (at := _insert_rows(table.view(), at, *arrays, rows, states)) < len(rows):
        table.grow()
    table.advance_rehash(len(rows))


def choose_victims(
    table: Table, bin_id: int, *, wanted: int, only_this: bool, epoch: int
) -> tuple[Array, Array, int, bool]:
    """Entries to spill, with their bins, from `bin_id` on; the bin to go on with, and whether that is begun.

    Entries of the `epoch` are pinned, unless it is negative.
    """
    entries, bins = np.empty(wanted, np.int64), np.empty(wanted, np.int64)
    count, bin_id, is_begun = _choose_victims(table.view(), bin_id, only_this, epoch, entries, bins)
    return entries[:count], bins[:count], bin_id, is_begun


def extract_entries(table: Table, entries: Array, bins: Array, words: int) -> Array:
    """Remove entries, which are in `bins`; return the first words of their states."""
    states = np.empty((len(entries), words), np.uint64)
    _extract_entries(table.view(), entries, bins, states)
    return states


@kernel
def _insert_rows(
    view: TableView, first: int, hashes: Array, offsets: Array, data: Array, nulls: Array, rows: Array, states: Array
) -> int:
    """Insert from the first on; return the one that lacks room, or their number."""
    width, where, begin = view.meta[WIDTH], meta_address(view), address_of(data)
    for number in range(first, len(rows)):
        row = rows[number]
        key = begin + np.int64(offsets[row])
        entry = insert(where, hashes[row], key, size_of(offsets, nulls, row), begin + len(data))
        if entry == NO_ENTRY:
            return number
        for word in range(states.shape[1]):
            view.entries[PAD + entry * width + STATE + word] = states[number, word]
    return len(rows)


@kernel
def _choose_victims(
    view: TableView, bin_id: int, only_this: bool, epoch: int, entries: Array, bins: Array
) -> tuple[int, int, bool]:
    width, count, scanned = view.meta[WIDTH], 0, 0
    marks = view.entries.view(np.int64)
    for _ in range(len(view.heads)):
        entry = view.heads[bin_id]
        while entry != NO_ENTRY:
            if count == len(entries):
                return count, bin_id, True
            scanned += 1
            base = PAD + entry * width
            mark = marks[base + width - 1]
            if epoch < 0 or (mark >= 0 and mark >> 32 != epoch):
                entries[count] = entry
                bins[count] = bin_id
                count += 1
            entry = np.int64(view.entries[base + LINKS] >> HALF_BITS)
        bin_id = (bin_id + 1) % len(view.heads)
        if only_this or scanned > SCANNED_PER_VICTIM_MAX * len(entries):
            break
    return count, bin_id, False


@kernel
def _extract_entries(view: TableView, entries: Array, bins: Array, states: Array) -> None:
    width, where = view.meta[WIDTH], meta_address(view)
    for row in range(len(entries)):
        for word in range(states.shape[1]):
            states[row, word] = view.entries[PAD + entries[row] * width + STATE + word]
        remove(where, entries[row], bins[row])
