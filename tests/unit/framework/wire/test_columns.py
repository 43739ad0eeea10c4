"""Columns on the wire: kind 1, Arrow batches."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
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
    with pytest.raises(ProtocolError, match="column 'word' has codes that its dictionary lacks"):
        decode_batch(encode_batch(pa.record_batch({"word": wrong})))


def test_a_dictionary_without_values_is_for_nulls():
    nulls = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int32()), pa.array([], pa.string()))
    batch = pa.record_batch({"word": nulls})
    assert decode_batch(encode_batch(batch)).equals(batch)


STRINGS = [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()]
WORDS = ["tea", "milk", "rum"]
UNFIT = [[0, 1_000_000, 0, 3], [0, -5000, 8, 10], [0, 4096, 0, 1], [-1, 0, 7, 10], [0, 3, 7, 100], [3, 0, 7, 0]]


def with_offsets(batch: pa.RecordBatch, offsets: list[int], kind: type = np.int32) -> bytes:
    """A batch with the column `WORDS` on the wire, where its offsets are replaced by these."""
    octets, fit = encode_batch(batch), np.array([0, 3, 7, 10], kind).tobytes()
    assert octets.count(fit) == 1
    return octets.replace(fit, np.array(offsets, kind).tobytes())


@pytest.mark.parametrize("kind", STRINGS, ids=str)
@pytest.mark.parametrize("offsets", UNFIT, ids=str)
def test_offsets_that_go_backwards_or_beyond_the_data_are_refused(kind: pa.DataType, offsets: list[int]):
    batch = pa.record_batch({"word": pa.array(WORDS).cast(kind)})
    wide = kind in (pa.large_string(), pa.large_binary())
    with pytest.raises(ProtocolError):
        decode_batch(with_offsets(batch, offsets, np.int64 if wide else np.int32))


@pytest.mark.parametrize("offsets", UNFIT, ids=str)
def test_such_offsets_are_refused_in_a_dictionary_and_within_nested_types(offsets: list[int]):
    words = pa.array(WORDS)
    for column in (words.dictionary_encode(), pa.StructArray.from_arrays([words], ["word"])):
        with pytest.raises(ProtocolError):
            decode_batch(with_offsets(pa.record_batch({"word": column}), offsets))


def test_offsets_of_lists_are_checked_too():
    offsets = pa.py_buffer(np.array([0, 1000, 2], np.int32))
    lists = pa.Array.from_buffers(pa.list_(pa.int64()), 2, [None, offsets], children=[pa.array([1, 2])])
    with pytest.raises(ProtocolError):
        decode_batch(encode_batch(pa.record_batch({"numbers": lists})))


@pytest.mark.parametrize("kind", STRINGS, ids=str)
def test_strings_of_all_kinds_arrive_sliced_empty_or_null(kind: pa.DataType):
    for words in (WORDS, [], ["", ""], [None, "tea", None], ["tea", "milk", "rum"][1:]):
        column = pa.array(words, pa.string()).cast(kind)
        batch = pa.record_batch({"word": column, "in a dictionary": column.dictionary_encode()})
        assert decode_batch(encode_batch(batch)).equals(batch)
        assert decode_batch(encode_batch(batch.slice(1))).equals(batch.slice(1))


@pytest.mark.parametrize("claimed", [1, 3, 2**40])
def test_a_null_count_that_its_bitmap_does_not_have_is_refused(claimed: int):
    batch = pa.record_batch({"n": pa.array([1, None, None], pa.int64())})
    octets = encode_batch(batch)
    node = np.array([3, 2], np.int64).tobytes()
    assert octets.count(node) == 1
    with pytest.raises(ProtocolError):
        decode_batch(octets.replace(node, np.array([3, claimed], np.int64).tobytes()))


def test_codes_are_checked_though_all_are_said_to_be_null():
    codes = pa.array([0, 1_000_000, None], pa.int32())
    wrong = pa.DictionaryArray.from_arrays(codes, pa.array(["tea"]), safe=False)
    octets = encode_batch(pa.record_batch({"word": wrong}))
    node = np.array([3, 1], np.int64).tobytes()
    assert octets.count(node) == 1
    with pytest.raises(ProtocolError, match="a wrong count of nulls"):
        decode_batch(octets.replace(node, np.array([3, 3], np.int64).tobytes()))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_batches_and_dictionaries_are_refused_before_they_are_decompressed(codec: str):
    plain = pa.record_batch({"n": np.zeros(2**23, np.int64)})
    coded = pa.record_batch({"word": pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(["a" * 2**26]))})
    for batch in (plain, coded):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
            writer.write_batch(batch)
        octets = sink.getvalue().to_pybytes()
        assert len(octets) < 2**20
        before = pa.default_memory_pool().bytes_allocated()
        peak = pa.default_memory_pool().max_memory()
        with pytest.raises(ProtocolError, match="compressed"):
            decode_batch(octets)
        assert pa.default_memory_pool().bytes_allocated() == before
        assert pa.default_memory_pool().max_memory() == peak


def test_a_compressed_dictionary_is_refused_before_a_batch_that_is_not():
    coded = pa.record_batch({"word": pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(["a" * 2**20]))})

    def messages(codec: str | None) -> list[bytes]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, coded.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
            writer.write_batch(coded)
        return [message.serialize().to_pybytes() for message in pa.ipc.MessageReader.open_stream(sink.getvalue())]

    schema, _, batch = messages(None)
    _, dictionary, _ = messages("zstd")
    with pytest.raises(ProtocolError, match="compressed"):
        decode_batch(schema + dictionary + batch)


def test_a_column_whose_name_is_no_text_is_refused():
    octets = encode_batch(pa.record_batch({"a name": [1]}))
    with pytest.raises(ProtocolError, match="not an Arrow batch"):
        decode_batch(octets.replace(b"a name", b"a nam\xee"))
