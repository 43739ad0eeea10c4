"""Rows of a batch by their parts: the same, and in the same order, or by regions."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.wire.container import encode_container
from routing.columns import partition
from routing.columns.keys import HASHES, KeyColumns
from routing.columns.partition import HASH_CHUNK_ROWS, Division, divide, divide_by, regions_of

PARTS = 3

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): st.text(max_size=20),
    pa.large_string(): st.text(max_size=20),
    pa.string_view(): st.text(max_size=20),
    pa.binary(): st.binary(max_size=40),
    pa.binary(16): st.binary(min_size=16, max_size=16),
    pa.binary(8): st.binary(min_size=8, max_size=8),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(date(1, 1, 1)),
    pa.timestamp("us"): st.datetimes(datetime(1, 1, 1)),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["tea", "milk", ""]),
}


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    rows = draw(st.integers(1, 60))
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    columns = {}
    for number, kind in enumerate(kinds):
        value = VALUES[kind] | st.none() if draw(st.booleans()) else VALUES[kind]
        values = draw(st.lists(value, min_size=rows, max_size=rows))
        columns[f"column {number}"] = pa.array(values, pa.string()).cast(kind) if _is_dictionary(kind) else values
    schema = pa.schema([(name, kind) for name, kind in zip(columns, kinds, strict=True)])
    whole = pa.record_batch(
        [one if isinstance(one, pa.Array) else pa.array(one, schema.field(name).type) for name, one in columns.items()],
        schema=schema,
    )
    start = draw(st.integers(0, rows - 1))
    return whole.slice(start)


def key_of(batch: pa.RecordBatch) -> KeyColumns:
    return KeyColumns.of(batch.schema, batch.schema.names[0], "the test")


def _is_dictionary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind))


@given(
    batch=batches(), count=st.sampled_from([1, 2, 3, 5, 12]), rows_min=st.sampled_from([1, 4096]), seed=st.integers(0)
)
def test_each_part_has_its_rows_by_regions_in_their_order(batch: pa.RecordBatch, count: int, rows_min: int, seed: int):
    random = np.random.default_rng(seed)
    hashes = random.integers(0, 2**64, len(batch), np.uint64)
    owners = random.integers(0, count, 32).astype(np.uint16)
    key, division = key_of(batch), Division(59, owners, count)
    hashed = batch.append_column(HASHES, pa.array(hashes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "REGION_ROWS_MIN", rows_min)
        regions = regions_of(len(batch), count)
        by_bin = divide(hashed, key, division)
        in_rooms = divide(hashed, key, division, lambda part, size: memoryview(bytearray(size)))
    parts = owners[hashes >> np.uint64(59)]
    in_their_order = [np.flatnonzero(parts == part) for part in range(count)]
    by_region = [rows[np.argsort(hashes[rows] // 2**14 % regions, kind="stable")] for rows in in_their_order]
    if len(batch) in map(len, in_their_order):
        by_region = in_their_order
    assert [part.drop_columns([HASHES]).to_pylist() for part in by_bin] == [rows_of(batch, rows) for rows in by_region]
    assert [part[HASHES].to_pylist() for part in by_bin] == [hashes[rows].tolist() for rows in by_region]
    assert in_rooms == by_bin
    for part in (*by_bin, *in_rooms):
        part.validate(full=True)
        assert part.schema.names == [HASHES, *batch.schema.names]
    by_row = divide_by(batch, parts.astype(np.int64), count)
    assert [part.to_pylist() for part in by_row] == [rows_of(batch, rows) for rows in in_their_order]
    for part in by_row:
        part.validate(full=True)
        assert part.schema == batch.schema


def rows_of(batch: pa.RecordBatch, rows: Any) -> list[Any]:
    everything = batch.to_pylist()
    return [everything[row] for row in rows]


@pytest.mark.parametrize(
    ("rows", "parts", "expected"),
    [(2**19, 2, 16), (2**16, 2, 8), (2**14, 2, 2), (2**13 - 1, 2, 1), (2**19, 3, 16), (2**22, 48, 2), (2**30, 1000, 1)],
)
def test_parts_have_as_many_regions_as_pay(rows: int, parts: int, expected: int):
    assert regions_of(rows, parts) == expected


@given(rows=st.integers(0, 2**32), parts=st.integers(1, 2**16 - 1))
def test_regions_are_powers_of_two_that_can_be_numbered_through(rows: int, parts: int):
    regions = regions_of(rows, parts)
    assert regions.bit_count() == 1
    assert parts * regions < 2**16


@given(batch=batches())
def test_keys_are_hashed_while_they_are_divided_or_before_with_the_same_outcome(batch: pa.RecordBatch):
    key, division = key_of(batch), Division(62, np.array([0, 2, 1, 2], np.uint16), PARTS)
    hashed = batch.append_column(HASHES, pa.array(key.hashes(batch)))
    assert divide(batch, key, division) == divide(hashed, key, division)


def test_a_batch_is_hashed_piece_by_piece_to_its_end():
    """Of which the last is shorter than the others."""
    batch = pa.record_batch({"word": [f"{row:x}" for row in range(3 * HASH_CHUNK_ROWS + 5)]})
    key, division = key_of(batch), Division(62, np.array([0, 2, 1, 2], np.uint16), PARTS)
    parts = divide(batch, key, division)
    assert sum(map(len, parts)) == len(batch)
    for number, part in enumerate(parts):
        hashes = key.hashes(part.select(["word"]))
        assert part[HASHES].to_pylist() == hashes.tolist()
        assert set(division.part_of_bin[hashes >> np.uint64(62)].tolist()) == {number}


@pytest.mark.parametrize("parts", [2, 3, 20])
def test_what_is_written_to_reserved_memory_lies_there_as_on_the_wire(parts: int):
    """Else it would have to be copied when it is sent."""
    words = [f"{row:x}" * (1 + row % 5) for row in range(1000)]
    batch = pa.record_batch({"word": words, "small": np.arange(1000, dtype=np.int8), "other": words[::-1]})
    division = Division(59, (np.arange(32) % parts).astype(np.uint16), parts)
    reserved = {}

    def reserve(part: int, size: int) -> memoryview:
        reserved[part] = memoryview(bytearray(size))
        return reserved[part]

    hashes = np.random.default_rng(parts).integers(0, 2**64, 1000, np.uint64)
    hashed = batch.append_column(HASHES, pa.array(hashes))
    for number, part in enumerate(divide(hashed, key_of(batch), division, reserve)):
        _, pieces = encode_container(part)
        there = pa.py_buffer(reserved[number]).address
        starts, before = set(), 0
        for piece in pieces:
            if isinstance(piece, pa.Buffer):
                starts.add(piece.address - before)
            before += len(piece)
        assert len(starts) == 1
        assert max(piece.address + piece.size for piece in pieces if isinstance(piece, pa.Buffer)) - there <= len(
            reserved[number]
        )


def test_a_part_may_have_all_the_long_strings():
    words = ["x" * 1000 if row % 3 == 0 else "y" for row in range(300)]
    batch = pa.record_batch({"word": words, "number": range(300)})
    parts = divide_by(batch, np.arange(300) % 3, 3)
    assert [part.to_pylist() for part in parts] == [batch.to_pylist()[part::3] for part in range(3)]
