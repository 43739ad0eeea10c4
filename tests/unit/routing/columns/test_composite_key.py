"""Keys of several columns as bytes: there and back, and as a peer may send them."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pytest

from framework.errors import ProtocolError
from routing.columns.keys import KeyColumns, Keys

KEY = KeyColumns.of(pa.schema({"word": pa.string(), "n": pa.int64()}), ["word", "n"], "a test")
NUMBER = (1).to_bytes(1) + (7).to_bytes(8, "little")
TEA = b"\1\3\0\0\0tea"


def keys_of(*packed: bytes, key: KeyColumns = KEY, nulls: list[bool] | None = None) -> Keys:
    offsets = np.array([0, *accumulate(map(len, packed))], np.int32)
    return key.keys_from_bytes(offsets, np.frombuffer(b"".join(packed), np.uint8).copy(), np.array(nulls or [], bool))


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 2**16 + 3, 2**24 + 1])
def test_long_strings_in_keys_of_several_columns_come_back(size: int):
    batch = pa.record_batch({"word": ["tea", "m" * size, None, ""], "n": pa.array([1, 2, None, 4])})
    keys = KEY.keys(batch)
    offsets, data, nulls = keys.offsets, keys.data, keys.nulls
    assert pa.RecordBatch.from_arrays(KEY.decode(offsets, data, nulls), schema=KEY.schema).equals(batch)
    again = keys_of(*(bytes(data[start:end]) for start, end in pairwise(offsets)))
    assert again.hashes.tolist() == keys.hashes.tolist()


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        TEA,
        TEA + NUMBER[:-1],
        TEA + NUMBER + b"\0",
        b"\1\2\0\0\0tea" + NUMBER,
        b"\1\xff\xff\xff\xfftea" + NUMBER,
        b"\1\0\0\0\x80tea" + NUMBER,
        b"\1\3\0\0",
        b"\2\3\0\0\0tea" + NUMBER,
        b"\0",
        b"\0\0\0",
        TEA + b"\x07" + NUMBER[1:],
    ],
    ids=repr,
)
def test_bytes_that_are_no_key_of_these_columns_are_refused(packed: bytes):
    fit = TEA + NUMBER
    for keys in ([packed], [fit, packed], [packed, fit]):
        with pytest.raises(ProtocolError, match=r"are not those of \(a string, a number\)"):
            keys_of(*keys)


def test_a_key_of_several_columns_is_not_null_as_a_whole():
    with pytest.raises(ProtocolError, match="null as a whole"):
        keys_of(TEA + NUMBER, TEA + NUMBER, nulls=[False, True])


def test_keys_of_a_number_have_eight_bytes():
    number = KeyColumns.of(pa.schema({"n": pa.int64()}), "n", "a test")
    assert len(keys_of(bytes(8), b"", key=number, nulls=[False, True])) == 2
    for packed in (b"", bytes(7), bytes(9)):
        with pytest.raises(ProtocolError, match="has not 8 bytes"):
            keys_of(bytes(8), packed, key=number)
