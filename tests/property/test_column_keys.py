"""Keys in columns: they hash as the same keys do in rows, and their bytes give them back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.errors import GraphError
from routing.bins import BinId, Bins
from routing.columns.keys import KeyColumns, Keys
from routing.columns.table.table import Table
from routing.hashing import stable_hash

FEWER = settings(max_examples=settings().max_examples // 3)
"""For tests of each type."""

TEXT = st.one_of(st.text(max_size=12), st.text(min_size=30, max_size=80), st.just(""))
OCTETS = st.one_of(st.binary(max_size=12), st.binary(min_size=30, max_size=80), st.just(b""))
ODD_FLOATS = [0.0, -0.0, 1.0, -1.5, float("nan"), float("inf"), -float("inf")]
HUGE_FLOATS = [
    sign * value
    for sign in (1, -1)
    for value in (2.0**53, 2.0**62, 2.0**63, 2.0**63 + 2048, 2.0**64, 1.5 * 2.0**64, 2.0**71, 2.0**72 - 2**20, 1e300)
]
DAYS = st.dates()
MOMENTS = st.datetimes()
SECONDS = MOMENTS.map(lambda moment: moment.replace(microsecond=0))
MILLISECONDS = MOMENTS.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))
ZONED = st.datetimes(datetime(1950, 1, 1), datetime(2100, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))


def _integers(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, high // 2 + 1]))


TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): TEXT,
    pa.large_string(): TEXT,
    pa.string_view(): TEXT,
    pa.binary(): OCTETS,
    pa.large_binary(): OCTETS,
    pa.binary(5): st.binary(min_size=5, max_size=5),
    pa.int8(): _integers(8, signed=True),
    pa.int16(): _integers(16, signed=True),
    pa.int32(): _integers(32, signed=True),
    pa.int64(): _integers(64, signed=True),
    pa.uint8(): _integers(8, signed=False),
    pa.uint16(): _integers(16, signed=False),
    pa.uint32(): _integers(32, signed=False),
    pa.uint64(): _integers(64, signed=False),
    pa.float16(): st.one_of(st.floats(width=16), st.sampled_from(ODD_FLOATS)).map(np.float16),
    pa.float32(): st.one_of(st.floats(width=32), st.sampled_from([*ODD_FLOATS, 2.0**63, -(2.0**64), 2.0**100])),
    pa.float64(): st.one_of(st.floats(), st.sampled_from(ODD_FLOATS), st.sampled_from(HUGE_FLOATS)),
    pa.bool_(): st.booleans(),
    pa.date32(): DAYS,
    pa.date64(): DAYS,
    pa.timestamp("s"): SECONDS,
    pa.timestamp("ms"): MILLISECONDS,
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("s", "UTC"): ZONED.map(lambda moment: moment.replace(microsecond=0)),
    pa.timestamp("ms", "+05:30"): ZONED.map(lambda moment: moment.replace(microsecond=1000)),
    pa.timestamp("us", "Europe/Berlin"): ZONED,
    pa.dictionary(pa.int8(), pa.string()): TEXT,
    pa.dictionary(pa.int32(), pa.large_string()): TEXT,
    pa.dictionary(pa.int32(), pa.int64()): _integers(64, signed=True),
    pa.dictionary(pa.int16(), pa.int16()): _integers(16, signed=True),
}


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


@st.composite
def batches(draw: st.DrawFn, kinds: Sequence[pa.DataType]) -> pa.RecordBatch:
    """Columns of these types with nulls here and there, perhaps a slice out of more rows."""
    count = draw(st.integers(0, 12))
    columns = [
        draw(st.lists(st.one_of(TYPES[kind], TYPES[kind], TYPES[kind], st.none()), min_size=count, max_size=count))
        for kind in kinds
    ]
    arrays = [array_of(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, [f"k{index}" for index in range(len(kinds))])
    start = draw(st.integers(0, count))
    return batch.slice(start, draw(st.integers(0, count - start)))


def keys_of(batch: pa.RecordBatch) -> KeyColumns:
    return KeyColumns.of(batch.schema, batch.schema.names, "x")


def rows_of(columns: Sequence[pa.Array]) -> list[Any]:
    """The keys of these columns, as a job on rows has them."""
    if len(columns) == 1:
        return list(columns[0].to_pylist())
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def distinct(batch: pa.RecordBatch) -> pa.RecordBatch:
    """One row of each key, as a dictionary tells keys apart; NaN is equal to NaN. It is a slice of more."""
    firsts: dict[str, int] = {}
    for index, key in enumerate(rows_of(batch.columns)):
        firsts.setdefault(repr(_canonical(key)), index)
    columns = [column.to_pylist() for column in batch.columns]
    arrays = [
        array_of([column[index] for index in (*firsts.values(), *firsts.values())], kind)
        for column, kind in zip(columns, batch.schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names).slice(len(firsts))


def _canonical(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(_canonical, key))
    return float(key) + 0.0 if isinstance(key, float | np.floating) else key


@pytest.mark.parametrize("kind", TYPES, ids=str)
@FEWER
@given(data=st.data())
def test_a_column_hashes_as_its_values_do(kind: pa.DataType, data: st.DataObject):
    batch = data.draw(batches([kind]))
    key = keys_of(batch)
    expected = [stable_hash(_python(value)) for value in batch.column(0).to_pylist()]
    assert key.keys(batch).hashes_at(np.arange(len(batch))).tolist() == expected
    assert key.hashes(batch).tolist() == expected


@given(st.lists(st.sampled_from(list(TYPES)), min_size=2, max_size=4), st.data())
def test_several_columns_hash_as_a_tuple_of_their_values(kinds: list[pa.DataType], data: st.DataObject):
    batch = data.draw(batches(kinds))
    expected = [stable_hash(tuple(map(_python, key))) for key in rows_of(batch.columns)]
    assert keys_of(batch).keys(batch).hashes.tolist() == expected


def _python(value: Any) -> Any:
    """What rows have instead of numpy's half."""
    return float(value) if isinstance(value, np.floating) else value


def _there_and_back(batch: pa.RecordBatch) -> None:
    """Keys that a table was given come out of it bin by bin, with the hashes that they had."""
    batch, bins = distinct(batch), Bins(4)
    key = keys_of(batch)
    keys = key.keys(batch)
    table = Table(bins, 1)
    table.install(keys, np.arange(len(batch), dtype=np.uint64).reshape(-1, 1))
    found: dict[int, Any] = {}
    hashes: dict[int, int] = {}
    for bin_id in range(bins.count):
        for offsets, octets, nulls, states in table.extract(BinId(bin_id), 60):
            again = key.keys_from_bytes(offsets, octets, nulls)
            assert (again.hashes >> np.uint64(bins.shift)).tolist() == [bin_id] * len(again)
            decoded = key.decode(offsets, octets, nulls)
            assert [column.type for column in decoded] == batch.schema.types
            numbers = states[:, 0].tolist()
            found |= dict(zip(numbers, rows_of(decoded), strict=True))
            hashes |= dict(zip(numbers, again.hashes.tolist(), strict=True))
    expected = rows_of(batch.columns)
    assert repr([_canonical(found[number]) for number in range(len(batch))]) == repr([*map(_canonical, expected)])
    assert [hashes[number] for number in range(len(batch))] == keys.hashes.tolist()
    assert len(table) == 0


@pytest.mark.parametrize("kind", TYPES, ids=str)
@FEWER
@given(data=st.data())
def test_a_key_comes_out_of_a_table_as_it_went_in(kind: pa.DataType, data: st.DataObject):
    _there_and_back(data.draw(batches([kind])))


@given(st.lists(st.sampled_from(list(TYPES)), min_size=2, max_size=4), st.data())
def test_a_composite_key_comes_out_of_a_table_as_it_went_in(kinds: list[pa.DataType], data: st.DataObject):
    _there_and_back(data.draw(batches(kinds)))


@given(
    st.lists(st.tuples(TEXT, st.none() | TEXT), max_size=12),
    st.lists(st.tuples(TEXT, st.none() | TEXT), max_size=12),
)
def test_only_equal_composite_keys_have_equal_bytes(some: list[Any], others: list[Any]):
    schema = pa.schema({"a": pa.string(), "b": pa.string()})
    rows = some + others
    batch = pa.RecordBatch.from_pylist([{"a": a, "b": b} for a, b in rows], schema=schema)
    octets = _octets(KeyColumns.of(schema, ["a", "b"], "x").keys(batch))
    assert [octets.index(each) for each in octets] == [rows.index(row) for row in rows]


def _octets(keys: Keys) -> list[bytes]:
    return [keys.data[start:end].tobytes() for start, end in zip(keys.offsets[:-1], keys.offsets[1:], strict=True)]


def test_equal_numbers_have_equal_bytes_whatever_their_bits():
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], np.uint64).view(np.float64)
    batch = pa.record_batch({"x": pa.array(np.concatenate([nans, [0.0, -0.0]]))})
    keys = keys_of(batch).keys(batch)
    octets = _octets(keys)
    assert octets[0] == octets[1] == octets[2]
    assert octets[3] == octets[4]
    assert keys.hashes.tolist() == [stable_hash(float("nan"))] * 3 + [stable_hash(0)] * 2


def test_integral_floats_hash_as_integers_of_any_size():
    powers = [2.0**power for power in range(50, 1024)]
    values = [sign * one for power in powers for one in (power, power * 1.5, power * (2 - 2**-52)) for sign in (1, -1)]
    batch = pa.record_batch({"x": values})
    assert keys_of(batch).hashes(batch).tolist() == [stable_hash(value) for value in values]


@pytest.mark.parametrize(
    "kind",
    [
        pa.timestamp("ns"),
        pa.timestamp("ns", "UTC"),
        pa.list_(pa.int64()),
        pa.struct({"a": pa.int64()}),
        pa.map_(pa.string(), pa.int64()),
        pa.decimal128(10, 2),
        pa.duration("us"),
        pa.time64("us"),
        pa.dictionary(pa.int8(), pa.timestamp("ns")),
    ],
    ids=str,
)
def test_a_column_that_cannot_be_a_key_is_named(kind: pa.DataType):
    schema = pa.schema([("fine", pa.string()), ("odd one", kind)])
    with pytest.raises(GraphError, match=r"column 'odd one' is .* and cannot be a key; let it be a string"):
        KeyColumns.of(schema, ["fine", "odd one"], "x")


def test_a_key_names_columns_that_are_there():
    schema = pa.schema({"word": pa.string(), "n": pa.int64()})
    with pytest.raises(
        GraphError, match=r"^operator 'x' has no column 'wrod'; it has 'word', 'n'; did you mean 'word'\?$"
    ):
        KeyColumns.of(schema, "wrod", "operator 'x'")
    with pytest.raises(GraphError, match=r"^operator 'x' has no key; name a column, or several$"):
        KeyColumns.of(schema, [], "operator 'x'")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.dictionary(pa.int8(), pa.date32()), [date(2020, 2, 29), None]),
        (pa.dictionary(pa.int8(), pa.timestamp("us", "UTC")), [datetime(2020, 1, 1, tzinfo=UTC), None]),
        (pa.dictionary(pa.int8(), pa.bool_()), [True, None, False]),
        (pa.dictionary(pa.int8(), pa.float32()), [0.5, None]),
        (pa.dictionary(pa.int8(), pa.binary(3)), [b"abc", None]),
    ],
    ids=str,
)
def test_a_dictionary_of_any_key_is_a_key(kind: pa.DataType, values: list[Any]):
    batch = pa.record_batch({"k": array_of(values, kind)})
    assert keys_of(batch).keys(batch).hashes.tolist() == [stable_hash(value) for value in values]
    _there_and_back(batch)


def test_days_before_the_epoch_and_moments_in_other_zones():
    noon = datetime(1969, 12, 31, 12, tzinfo=UTC)
    batch = pa.record_batch(
        {
            "day": pa.array([date(1969, 12, 31), date(1, 1, 1)], pa.date64()),
            "at": pa.array([noon, noon - timedelta(microseconds=1)], pa.timestamp("us", "Asia/Tokyo")),
        }
    )
    assert keys_of(batch).keys(batch).hashes.tolist() == [stable_hash(key) for key in rows_of(batch.columns)]
