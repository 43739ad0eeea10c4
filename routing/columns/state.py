"""The bins of an operator on columns: a table's keys and states, and their encoding when a bin moves.

A chunk is an Arrow batch: a column of key bytes, and the columns of the state as they were declared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from framework.errors import ProtocolError
from framework.wire.codec import Buffer
from framework.wire.columns import decode_batch, encode_batch
from routing.bins import BinId, Bins
from routing.columns.composite_key import validity
from routing.columns.keys import KeyColumns, byte_strings, nulls_of
from routing.columns.memory import Array
from routing.columns.table.layout import words_in
from routing.columns.table.table import Table
from routing.columns.table.tiered import TieredTable
from routing.state.timers import PendingTimers


class TableState:
    """A `BinState` over a table."""

    def __init__(self, table: Table | TieredTable, key: KeyColumns, state: pa.Schema, timers: PendingTimers) -> None:
        self._table = table
        self._key = key
        self._schema = pa.schema([pa.field(KEY_NAME, pa.binary()), *state])
        self._timers = timers

    @staticmethod
    def warm_up(key: KeyColumns, state: pa.Schema) -> None:
        """Compile what moves bins and grows tables now, before records wait for it."""
        table = Table(Bins(1), sum(words_in(field.type) for field in state))
        bin_state = TableState(table, key, state, PendingTimers())
        keys = key.keys(pa.RecordBatch.from_pylist([dict.fromkeys(key.names)], schema=key.schema))
        buffers = [validity(keys.nulls), pa.py_buffer(keys.offsets.astype(np.int32)), pa.py_buffer(keys.data)]
        states = [column_of(np.zeros((1, words_in(field.type)), np.uint64), field.type) for field in state]
        arrays = [pa.Array.from_buffers(pa.binary(), 1, buffers), *states]
        bin_state.install(BinId(0), encode_batch(pa.RecordBatch.from_arrays(arrays, schema=bin_state._schema)))
        table.warm_up()
        assert len(list(bin_state.extract(BinId(0), 1))) == 1

    def bins(self) -> dict[BinId, int]:
        """The bins that have keys, with their numbers of keys."""
        return self._table.keys_per_bin()

    def entry_bytes(self) -> int:
        """The mean size of an entry."""
        return self._table.entry_bytes

    def must_travel(self, operator: str) -> None:
        """Columns always can."""

    def obstacle(self, bin_id: BinId) -> None:
        """There is none."""

    def extract(self, bin_id: BinId, chunk_bytes_max: int) -> Iterator[bytes]:
        """Remove a bin's state, in chunks."""
        for offsets, data, nulls, words in self._table.extract(bin_id, chunk_bytes_max):
            buffers = [validity(nulls), pa.py_buffer(offsets), pa.py_buffer(data)]
            keys = pa.Array.from_buffers(pa.binary(), len(words), buffers)
            states = [column_of(words[:, at], field.type) for at, field in self._word_slices()]
            yield encode_batch(pa.RecordBatch.from_arrays([keys, *states], schema=self._schema))

    def install(self, bin_id: BinId, chunk: Buffer) -> None:
        """Install a chunk of a bin's state."""
        batch = decode_batch(chunk)
        if not batch.schema.equals(self._schema):
            raise ProtocolError(f"a bin of {self._schema} came as {batch.schema}")
        keys, *states = batch.columns
        if any(column.null_count for column in states):
            raise ProtocolError(f"a bin of {self._schema} came with a null in a state")
        nulls = nulls_of(keys) if keys.null_count else np.zeros(0, np.bool_)
        words = np.zeros((len(batch), self._table.state_words), np.uint64)
        for (at, _), column in zip(self._word_slices(), states, strict=True):
            words[:, at] = words_of_column(column)
        self._table.install(self._key.keys_from_bytes(*byte_strings(keys), nulls), words)

    def extract_timers(self, bin_id: BinId) -> list[tuple[int, Any]]:
        """Remove a bin's timers."""
        return self._timers.extract(bin_id)

    def install_timers(self, bin_id: BinId, items: list[tuple[int, Any]]) -> None:
        """Install a bin's timers."""
        self._timers.install(bin_id, items)

    def close(self) -> None:
        """Release the memory."""
        self._table.close()

    def _word_slices(self) -> Iterator[tuple[slice, pa.Field]]:
        """The words of a state that each of its columns takes."""
        first = 0
        for field in list(self._schema)[1:]:
            after = first + words_in(field.type)
            yield slice(first, after), field
            first = after


KEY_NAME = ""
"""The name of the column of keys; no column of a state has it."""


def column_of(words: Array, kind: pa.DataType) -> pa.Array:
    """A column of a state, from its words, a row of them for each value."""
    words = np.ascontiguousarray(words)
    if pa.types.is_fixed_size_binary(kind):
        return pa.Array.from_buffers(kind, len(words), [None, pa.py_buffer(words)])
    words = words[:, 0]
    if pa.types.is_floating(kind):
        return pa.array(words.view(np.float64)).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array(words != 0)
    return pa.array(words.view(np.int64)).cast(kind)


def words_of_column(column: pa.Array) -> Array:
    """The words of a column of a state, a row of them for each value: the inverse of `column_of`."""
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        data = np.frombuffer(column.buffers()[1], np.uint8)[width * column.offset :]
        return data[: width * len(column)].view(np.uint64).reshape(len(column), width // 8)
    wide = column.cast(pa.float64() if pa.types.is_floating(column.type) else pa.int64())
    words: Array = wide.to_numpy(zero_copy_only=False).view(np.uint64)
    return words.reshape(-1, 1)
