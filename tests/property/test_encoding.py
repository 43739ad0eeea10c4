"""Keys in dictionaries: the same keys, each once, at the owners that their hashes name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from routing.columns import dictionary
from routing.columns.adaptive import CombineHeuristic
from routing.columns.dictionary import KEYS_MAX, ROWS_MIN, DictionaryEncoder
from routing.columns.keys import KeyColumns
from routing.columns.partition import WHOLE, Division
from routing.columns.scatter import with_keys
from routing.columns.take import decode
from routing.hashing import BYTES_SEED, stable_hash

OWNERS = np.array([0, 2, 1, 2], np.uint16)
DIVISION = Division(62, OWNERS, 3)
STRING = pa.string()
TEXT = st.text("ab", max_size=3) | st.text("xyz", min_size=6, max_size=10) | st.text("mn", min_size=14, max_size=40)


def encoder(kind: pa.DataType = STRING) -> DictionaryEncoder:
    """One for keys that mostly do not recur."""
    key = KeyColumns.of(pa.schema({"key": kind}), "key", "the test")
    return DictionaryEncoder(key.columns[0], CombineHeuristic(0.999), rows_min=1)


def batch_of(keys: Sequence[Any], kind: pa.DataType = STRING) -> pa.RecordBatch:
    """Keys as a slice of more, with the number of each."""
    padding = ["" if pa.types.is_string(kind) else b""] * 2
    whole = pa.record_batch({"key": pa.array([*padding, *keys, *padding], kind), "n": range(-2, len(keys) + 2)})
    return whole.slice(2, len(keys))


def owner_of(key: Any) -> int:
    return int(OWNERS[stable_hash(key) >> 62])


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
@given(data=st.data())
def test_each_part_has_its_keys_once_and_its_rows_in_their_order(kind: pa.DataType, data: st.DataObject):
    texts = data.draw(st.lists(TEXT, min_size=1, max_size=8))
    values = texts if pa.types.is_string(kind) else [text.encode() for text in texts]
    keys = data.draw(st.lists(st.sampled_from(values), min_size=8, max_size=60))
    batch, of = batch_of(keys, kind), encoder(kind)
    for _ in range(2):  # the second finds the slots of the first
        part_of_row = np.full(len(keys), 9, np.uint16)
        parts = of.encode(batch, DIVISION, part_of_row)
        assert parts is not None
        assert part_of_row.tolist() == [owner_of(key) for key in keys]
        for number, part in enumerate(parts):
            part.validate(full=True)
            own = [key for key in keys if owner_of(key) == number]
            assert part.to_pylist() == own
            assert part.dictionary.to_pylist() == list(dict.fromkeys(own))
            assert decode(part, kind) == pa.array(own, kind)
        divided = with_keys(batch, "key", parts, part_of_row)
        rows = list(zip(keys, range(len(keys)), strict=True))
        assert [list(zip(*part.to_pydict().values(), strict=True)) for part in divided] == [
            [row for row in rows if owner_of(row[0]) == number] for number in range(3)
        ]


def test_too_many_keys_are_left_as_they_are_and_not_tried_again_at_once():
    many = batch_of([f"key {number}" for number in range(2 * KEYS_MAX)])
    few = batch_of(["tea", "milk"] * ROWS_MIN)
    of = DictionaryEncoder.of(KeyColumns.of(many.schema, "key", "the test"))
    assert of is not None
    assert of.encode(few, WHOLE) is not None
    assert of.encode(many, WHOLE) is None
    assert of.encode(few, WHOLE) is None, "not looked at"
    assert of.encode(few, WHOLE) is not None


def test_small_batches_and_those_with_nulls_are_left_as_they_are():
    few = batch_of(["tea"] * (ROWS_MIN - 1))
    of = DictionaryEncoder.of(KeyColumns.of(few.schema, "key", "the test"))
    assert of is not None
    assert of.encode(few, WHOLE) is None
    assert of.encode(batch_of([None, *["tea"] * ROWS_MIN]), WHOLE) is None
    assert of.encode(batch_of(["tea"] * ROWS_MIN), WHOLE) is not None


def test_who_crowds_one_place_is_given_up_on_and_a_few_there_are_told_apart():
    """Keys of 8 bytes that differ by a multiple of what their slot is computed with go to slots next to each other."""
    inverse = pow(int(dictionary._P2), -1, 2**64)
    size = (8 * int(dictionary._P1)) % 2**64
    octets = [(((number * inverse) % 2**64) ^ size).to_bytes(8, "little") for number in range(200)]
    of = encoder(pa.binary())
    assert of.encode(batch_of(octets * 3, pa.binary()), WHOLE) is None
    assert of.encode(batch_of(octets[:40] * 3, pa.binary()), WHOLE) is None, "not looked at"
    found = of.encode(batch_of(octets[:40] * 3, pa.binary()), WHOLE)
    assert found is not None
    assert found[0].to_pylist() == octets[:40] * 3


@pytest.mark.parametrize("size", [12, 16, 20])
def test_long_keys_that_begin_alike_at_one_place_are_told_apart(size: int):
    """Hundreds of keys, three or more of them for each slot."""
    by_slot: dict[int, list[bytes]] = {}
    for number in range(10**5):
        key = b"the same" + number.to_bytes(size - 8, "big")
        by_slot.setdefault(slot_of(key), []).append(key)
    octets = [key for keys in by_slot.values() if len(keys) > 2 for key in keys][:600]
    assert len(octets) == 600
    of = encoder(pa.binary())
    found = of.encode(batch_of(octets * 2, pa.binary()), WHOLE)
    assert found is not None
    assert found[0].to_pylist() == octets * 2
    assert found[0].dictionary.to_pylist() == octets


def slot_of(key: bytes) -> int:
    """As the kernel finds it, for keys of more than 8 bytes."""
    if len(key) > 16:
        mixed = xxh64_intdigest(key, BYTES_SEED)
    else:
        prefix, rest = (int.from_bytes(part, "little") for part in (key[:8], key[-8:]))
        mixed = ((prefix ^ (len(key) * int(dictionary._P1) % 2**64)) * int(dictionary._P2)) % 2**64
        mixed = ((mixed ^ (mixed >> 32) ^ rest) * int(dictionary._P3)) % 2**64
    return mixed >> (64 - dictionary._SLOTS_BITS)


def test_serial_numbers_of_batches_do_not_run_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dictionary, "_SERIAL_MAX", 3)
    of = encoder()
    for number in range(9):
        keys = [f"{number}", "tea", f"{number}", "tea"]
        [found] = of.encode(batch_of(keys), WHOLE) or [None]
        assert found.to_pylist() == keys


@pytest.mark.parametrize("kind", [pa.int64(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_other_keys_have_no_encoder(kind: pa.DataType):
    assert DictionaryEncoder.of(KeyColumns.of(pa.schema({"key": kind}), "key", "the test")) is None


def test_nor_have_keys_of_several_columns():
    schema = pa.schema({"one": pa.string(), "other": pa.string()})
    assert DictionaryEncoder.of(KeyColumns.of(schema, ["one", "other"], "the test")) is None
