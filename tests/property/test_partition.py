"""Rows of a batch by their parts: the same, in the same order."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from routing.columns.keys import HASHES
from routing.columns.partition import Division, divided, divided_by

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


def _is_dictionary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind))


@given(batch=batches(), seed=st.integers(0, 2**32))
def test_each_part_has_its_rows_in_their_order(batch: pa.RecordBatch, seed: int):
    hashes = np.random.default_rng(seed).integers(0, 2**64, len(batch), np.uint64)
    owners = np.array([0, 2, 1, 2], np.uint16)
    parts = owners[hashes >> np.uint64(62)]
    expected = [
        [row for row, own in zip(batch.to_pylist(), parts, strict=True) if own == part] for part in range(PARTS)
    ]
    by_bin = divided(batch, hashes, Division(62, owners, PARTS))
    by_row = divided_by(batch, parts.astype(np.int64), PARTS)
    assert [part.drop_columns([HASHES]).to_pylist() for part in by_bin] == expected
    assert [part[HASHES].to_pylist() for part in by_bin] == [hashes[parts == part].tolist() for part in range(PARTS)]
    assert [part.to_pylist() for part in by_row] == expected
    for part in (*by_bin, *by_row):
        part.validate(full=True)
        assert part.schema.names[: batch.num_columns] == batch.schema.names


def test_a_part_may_have_all_the_long_strings():
    """More than is guessed beforehand."""
    words = ["x" * 1000 if row % 3 == 0 else "y" for row in range(300)]
    batch = pa.record_batch({"word": words, "number": range(300)})
    parts = divided_by(batch, np.arange(300) % 3, 3)
    assert [part.to_pylist() for part in parts] == [batch.to_pylist()[part::3] for part in range(3)]
