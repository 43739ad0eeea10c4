"""Chunks of a table's bins, as a peer may send them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from framework.errors import ProtocolError
from framework.wire.columns import encode_batch
from routing.bins import BinId, Bins
from routing.columns.keys import HASHES, KeyColumns, byte_strings
from routing.columns.state import TableState
from routing.columns.table.table import Table
from routing.columns.take import decode
from routing.state.timers import PendingTimers

KEY = KeyColumns.of(pa.schema({"n": pa.int64()}), "n", "a test")
STATE = pa.schema({"count": pa.int64(), "sketch": pa.binary(16)})


@pytest.fixture
def state() -> TableState:
    return TableState(Table(Bins(1), 3), KEY, STATE, PendingTimers())


def chunk(keys: list[bytes | None], counts: list[int | None], sketches: list[bytes | None]) -> bytes:
    columns = [pa.array(keys, pa.binary()), pa.array(counts, pa.int64()), pa.array(sketches, pa.binary(16))]
    return encode_batch(pa.RecordBatch.from_arrays(columns, schema=pa.schema([("", pa.binary()), *STATE])))


def test_a_bin_comes_and_goes(state: TableState):
    sent = chunk([bytes(8), None], [1, 2], [bytes(16), b"0123456789abcdef"])
    state.install(BinId(0), sent)
    assert sorted(map(len, state.extract(BinId(0), 2**20))) == [len(sent)]
    assert state.bins() == {}


@pytest.mark.parametrize(
    "wrong",
    [
        chunk([bytes(7)], [1], [bytes(16)]),
        chunk([bytes(8)], [None], [bytes(16)]),
        chunk([bytes(8)], [1], [None]),
        encode_batch(pa.record_batch({"n": [1]})),
        b"",
    ],
)
def test_what_is_no_bin_is_refused_and_nothing_of_it_installed(state: TableState, wrong: bytes):
    with pytest.raises(ProtocolError):
        state.install(BinId(0), wrong)
    assert state.bins() == {}


def test_an_empty_chunk_installs_nothing(state: TableState):
    state.install(BinId(0), chunk([], [], []))
    assert state.bins() == {}


def test_views_in_a_dictionary_are_not_taken_for_offsets():
    views = pa.DictionaryArray.from_arrays(
        pa.array([0, 1], pa.int32()), pa.array(["a" * 20, "b" * 30], pa.string_view())
    )
    with pytest.raises(ProtocolError, match="string_view where strings were expected"):
        decode(views, pa.string())
    with pytest.raises(ProtocolError, match="int64 where strings were expected"):
        byte_strings(pa.array([1, 2]))


def test_hashes_of_another_type_are_refused():
    batch = pa.record_batch({HASHES: np.zeros(1, np.int32), "n": [1]})
    with pytest.raises(ProtocolError, match="hashes of keys that came as int32"):
        KEY.hashes(batch)


def test_a_key_that_came_with_the_hash_of_another_is_not_taken_out_of_the_other_s_bin():
    table, bins = Table(Bins(4), 1), Bins(4)
    keys = KEY.keys(pa.record_batch({"n": list(range(8))}))
    other = next(
        row for row in range(8) if keys.hashes[row] >> np.uint64(bins.shift) != keys.hashes[0] >> np.uint64(62)
    )
    two = KEY.keys(pa.record_batch({"n": [0, other]}))
    table.install(replace(two, hashes=two.hashes[::-1].copy()), np.zeros((2, 1), np.uint64))
    with pytest.raises(ProtocolError, match="a key came with the hash of another"):
        table.remove(table.entries()[:1], two.hashes[:1])
    assert table.entries().tolist() == [0, 1]
    assert sum(len(nulls) for bin_id in range(4) for _, _, _, nulls in table.extract(BinId(bin_id), 2**20)) == 2
