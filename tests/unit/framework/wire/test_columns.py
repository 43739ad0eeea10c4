"""Columns on the wire: kind 1, Arrow batches."""

from __future__ import annotations

from collections import deque
from typing import Any

import pyarrow as pa
import pytest

from framework.errors import ProtocolError
from framework.wire.columns import batch_size, decode_batch, encode_batch
from framework.wire.container import COLUMNS, decode_container, encode_container, split_container, take_joined


def test_a_batch_travels_with_its_schema() -> None:
    batch = pa.record_batch({"word": ["tea", None, ""], "count": pa.array([1, 2, 3], pa.int32())})
    number, pieces = encode_container(batch)
    assert number == COLUMNS
    assert decode_container(COLUMNS, b"".join(pieces)) == batch


def test_what_is_large_is_not_copied() -> None:
    batch = pa.record_batch({"number": pa.array(range(100_000), pa.int64())})
    _, pieces = encode_container(batch)
    largest = pa.py_buffer(max(pieces, key=len))
    assert largest.address == batch.column(0).buffers()[1].address


def test_a_slice_travels_alone() -> None:
    batch = pa.record_batch({"number": list(range(100_000))})
    _, pieces = encode_container(batch.slice(10, 5))
    octets = b"".join(pieces)
    assert len(octets) < 1_000
    assert decode_container(COLUMNS, octets) == batch.slice(10, 5)


def test_halves_are_in_order() -> None:
    batch = pa.record_batch({"number": [1, 2, 3]})
    assert split_container(batch) == (batch.slice(0, 1), batch.slice(1))


@pytest.mark.parametrize("octets", [b"", b"tea", b"\xff\xff\xff\xff\x10\x00\x00\x00" + bytes(16)])
def test_what_is_no_batch_is_refused(octets: bytes) -> None:
    with pytest.raises(ProtocolError, match="not an Arrow batch"):
        decode_container(COLUMNS, octets)


def test_batches_are_joined_while_they_are_small_in_rows_and_in_bytes() -> None:
    short = pa.record_batch({"word": ["tea"] * 10})
    long = pa.record_batch({"line": ["x" * 10_000] * 100})
    assert [batch_size(batch) for batch in (short, long, long.slice(0, 1))] == [10, 31_262, 312]
    queue: deque[tuple[Any, Any]] = deque([(0, short), (0, short)])
    assert len(take_joined(queue, 0, short)) == 30
    queue = deque([(0, long), (0, long)])
    assert take_joined(queue, 0, long) is long
    assert len(queue) == 2


def test_keys_in_a_dictionary_arrive_in_it():
    batch = pa.record_batch({"word": pa.array(["tea", None, "milk", "tea"]).dictionary_encode(), "n": range(4)})
    again = decode_batch(encode_batch(batch))
    assert again.equals(batch)
    assert again.schema == batch.schema


@pytest.mark.parametrize("code", [-1, 2, 2**31 - 1])
def test_a_code_that_a_dictionary_has_no_value_for_is_refused(code: int):
    codes = pa.array([0, 1, code], pa.int32())
    wrong = pa.DictionaryArray.from_arrays(codes, pa.array(["tea", "milk"]), safe=False)
    with pytest.raises(ProtocolError, match="codes that its dictionary has no values for"):
        decode_batch(encode_batch(pa.record_batch({"word": wrong})))


def test_a_dictionary_without_values_is_for_nulls():
    nulls = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int32()), pa.array([], pa.string()))
    batch = pa.record_batch({"word": nulls})
    assert decode_batch(encode_batch(batch)).equals(batch)
