"""A table with a database behind it: more keys than fit into memory, and compiled code that need not know.

*Each key is in one place*, the table or the database. Before a batch is applied, those of its keys that are in the
database are brought into the table and deleted behind it: `fetch`. After it, if the table is larger than its share of
the memory, some of its keys are written to the database: `relieve`. Whole bins are, one after the other in turn, and
per batch as many keys as have come in meanwhile and some more, so that no batch waits for all of a bin.

With outputs per epoch, the keys of the epoch that is under way stay in the table, since these outputs refer to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from rocksdict import WriteBatch

from routing.bins import BinId, Bins
from routing.columns.compiled import kernel
from routing.columns.keys import KeyColumns, Keys
from routing.columns.memory import Array, address_of
from routing.columns.table.db_keys import db_keys, keys_at, lacking
from routing.columns.table.entries import entry_addresses, insert, remove
from routing.columns.table.layout import HALF, LINKS, NONE, PAD, STATE, WIDTH, size_of
from routing.columns.table.table import Table
from routing.state.database import Database
from routing.state.rocks_budget import Budget

MORE_KEYS = 256
"""So many more keys than have come in are written out at a time."""

ROWS_MIN = 4096
"""At least so many rows are applied at a time, however little memory there is."""

ROW_BYTES = 512
"""A row may take so much of a table's memory, or eight times as much as most do, until something is written out."""

LOOKED_AT_MAX = 16
"""Per key that is to be written out, at most so many are looked at: those of the epoch under way stay."""

Epoch = Callable[[], int]
"""The number of the epoch under way, which the upper half of the last word of its keys' states has."""


class TieredTable:
    """A table, and a database for the keys that it has no room for."""

    def __init__(self, table: Table, bins: Bins, database: Database, budget: Budget, epoch: Epoch | None) -> None:
        """With an `epoch`, the last word of a state says which one it is of, and is not for the database."""
        self.table = table
        self._bins = bins
        self._database = database
        self._budget = budget
        self._epoch = epoch
        self._words = table.state_words - (epoch is not None)
        self._counts = np.zeros(bins.count, np.int64)
        """How many keys of each bin are in the database."""
        self._total = 0
        self._turn = 0
        self._begun = False
        """Whether some of the bin whose turn it is have been written out: then the others are too."""
        self._before = 0

    @staticmethod
    def warm_up(key: KeyColumns, state_words: int) -> None:
        """Compile what `fetch` and `relieve` call now, before there are records that wait for it."""
        table, on_disk = Table(Bins(1), state_words), np.ones(1, np.int64)
        keys = key.keys(pa.RecordBatch.from_pylist([dict.fromkeys(key.names)], schema=key.schema))
        rows = lacking(table, keys, on_disk)
        bring_in(table, keys, rows, np.zeros((1, state_words), np.uint64))
        assert len(db_keys(keys.offsets, keys.data, keys.nulls, rows, on_disk - 1)) == 1
        entries, bins, _, _ = choose(table, 0, wanted=1, only_this=False, epoch=-1)
        assert len(db_keys(*table.gather(entries), np.arange(1), bins)) == 1
        take_out(table, entries, bins, state_words)

    @property
    def state_words(self) -> int:
        """How many words a state has in the table."""
        return self.table.state_words

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A batch in parts whose keys fit into the table; `relieve` it after each."""
        rows_max = max(ROWS_MIN, self._budget.table_bytes // ROW_BYTES)
        if len(batch) <= rows_max:
            yield batch
            return
        for start in range(0, len(batch), rows_max):
            yield batch.slice(start, rows_max)

    def fetch(self, keys: Keys) -> None:
        """Have in the table all of these keys that there are."""
        if not self._total:
            return
        rows = lacking(self.table, keys, self._counts)
        if not len(rows):
            return
        rows = rows[np.argsort(keys.hashes[rows])]  # by bins: those that are near each other are read together
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
        bring_in(self.table, keys, rows[here], states)
        self._count(bins[here], -1)

    def relieve(self) -> None:
        """Write some keys out, if the table has more than its share, or a bin has not been written out whole."""
        is_over = self.table.used_bytes > self._budget.table_bytes
        wanted = max(0, len(self.table) - self._before) + MORE_KEYS
        if is_over or self._begun:
            epoch = -1 if self._epoch is None else self._epoch()
            entries, bins, self._turn, self._begun = choose(
                self.table, self._turn, wanted=wanted, only_this=not is_over, epoch=epoch
            )
            if len(entries):
                self._write_out(entries, bins)
        self._before = len(self.table)

    def install(self, keys: Keys, states: Array) -> None:
        """Put in keys that are neither here nor there, with their states, a row of words each."""
        self.table.install(keys, states)
        self.relieve()

    def extract(self, bin_id: BinId, bytes_max: int) -> Iterator[tuple[Array, Array, Array, Array]]:
        """Take a bin out, some keys at a time, as a table does. Meanwhile others may be written to the database."""
        while self.keys_per_bin().get(bin_id):
            yield from self._extract_from_disk(bin_id, bytes_max)
            yield from self.table.extract(bin_id, bytes_max)

    def keys_per_bin(self) -> dict[BinId, int]:
        """The bins that hold anything, with their numbers of keys."""
        found = self.table.keys_per_bin()
        for bin_id in map(BinId, np.flatnonzero(self._counts).tolist()):
            found[bin_id] = found.get(bin_id, 0) + int(self._counts[bin_id])
        return found

    def close(self) -> None:
        """Let go of everything."""
        self.table.close()
        self._database.close()

    def _write_out(self, entries: Array, bins: Array) -> None:
        found = db_keys(*self.table.gather(entries), np.arange(len(entries)), bins)
        states, size = take_out(self.table, entries, bins, self._words).tobytes(), 8 * self._words
        batch = WriteBatch(raw_mode=True)
        for number, place in enumerate(found):
            batch.put(place, states[number * size : (number + 1) * size])
        self._database.write(batch)
        self._count(bins, 1)
        if not len(self.table):
            self.table.close()  # what had been large is small again

    def _extract_from_disk(self, bin_id: BinId, bytes_max: int) -> Iterator[tuple[Array, Array, Array, Array]]:
        count = int(self._counts[bin_id])
        if not count:
            return
        self._counts[bin_id] = 0
        self._total -= count
        found: list[bytes] = []
        states: list[bytes] = []
        size = 0
        for place, state in self._database.take(bin_id):
            size += len(place) + 3 + len(state)
            if found and size > bytes_max:
                yield *keys_at(found), self._states(states)
                found, states, size = [], [], len(place) + 3 + len(state)
            found.append(place)
            states.append(state)
        yield *keys_at(found), self._states(states)

    def _states(self, encoded: list[bytes]) -> Array:
        return np.frombuffer(b"".join(encoded), np.uint64).reshape(len(encoded), self._words)

    def _count(self, bins: Array, change: int) -> None:
        np.add.at(self._counts, bins, change)
        self._total += change * len(bins)


def bring_in(table: Table, keys: Keys, rows: Array, states: Array) -> None:
    """Put in the keys at `rows`, which a table lacks, with their states."""
    at = 0
    while (at := _bring_in(table.view(), at, keys.hashes, keys.offsets, keys.data, keys.nulls, rows, states)) < len(
        rows
    ):
        table.make_room()
    table.settle(len(rows))


def choose(table: Table, turn: int, *, wanted: int, only_this: bool, epoch: int) -> tuple[Array, Array, int, bool]:
    """Entries that can be written out, with their bins, beginning with that whose turn it is; the one to go on with,
    and whether that is begun. None is of the `epoch`, unless this is negative."""
    entries, bins = np.empty(wanted, np.int64), np.empty(wanted, np.int64)
    count, turn, begun = _choose(table.view(), turn, only_this, epoch, entries, bins)
    return entries[:count], bins[:count], turn, begun


def take_out(table: Table, entries: Array, bins: Array, words: int) -> Array:
    """Remove entries, which are in `bins`; the first words of their states."""
    states = np.empty((len(entries), words), np.uint64)
    _take_out(table.view(), entries, bins, states)
    return states


@kernel
def _bring_in(view, first, hashes, offsets, data, nulls, rows, states):
    """From the first on; the one that there was no room for, or their number."""
    width, where, begin = view.meta[WIDTH], entry_addresses(view), address_of(data)
    for number in range(first, len(rows)):
        row = rows[number]
        key = begin + np.int64(offsets[row])
        entry = insert(where, hashes[row], key, size_of(offsets, nulls, row), begin + len(data))
        if entry == NONE:
            return number
        for word in range(states.shape[1]):
            view.entries[PAD + entry * width + STATE + word] = states[number, word]
    return len(rows)


@kernel
def _choose(view, turn, only_this, epoch, entries, bins):
    width, count, looked_at = view.meta[WIDTH], 0, 0
    marks = view.entries.view(np.int64)
    for _ in range(len(view.heads)):
        entry = view.heads[turn]
        while entry != NONE:
            if count == len(entries):
                return count, turn, True
            looked_at += 1
            base = PAD + entry * width
            mark = marks[base + width - 1]
            if epoch < 0 or (mark >= 0 and mark >> 32 != epoch):
                entries[count] = entry
                bins[count] = turn
                count += 1
            entry = np.int64(view.entries[base + LINKS] >> HALF)
        turn = (turn + 1) % len(view.heads)
        if only_this or looked_at > LOOKED_AT_MAX * len(entries):
            break
    return count, turn, False


@kernel
def _take_out(view, entries, bins, states):
    width, where = view.meta[WIDTH], entry_addresses(view)
    for row in range(len(entries)):
        for word in range(states.shape[1]):
            states[row, word] = view.entries[PAD + entries[row] * width + STATE + word]
        remove(where, entries[row], bins[row])
