"""Partial states, in any mixture with records, against the same records as they are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.columns import aggregates as agg
from operators.columns.aggregating import CompiledAggregates
from operators.columns.combining import Combined
from operators.columns.partials import STATES, Partials
from routing.bins import Bins
from routing.columns.adaptive import CombineHeuristic
from routing.columns.keys import HASHES, KeyColumns
from routing.columns.partition import Division, divide
from routing.columns.table.dirty_entries import DirtyEntries
from routing.columns.table.table import Table

SCHEMA = pa.schema(
    {
        "text": pa.string(),
        "number": pa.int64(),
        "whole": pa.int64(),
        "real": pa.float64(),
        "odd": pa.float64(),
        "truth": pa.bool_(),
        "small": pa.int8(),
        "single": pa.float32(),
    }
)
AGGREGATES = {
    "count": agg.count(),
    "texts": agg.count("text"),
    "wholes": agg.count("whole"),
    "sum": agg.sum("whole"),
    "real sum": agg.sum("real"),
    "small sum": agg.sum("small"),
    "mean": agg.mean("whole"),
    "variance": agg.variance("real"),
    "least": agg.min("odd"),
    "greatest": agg.max("odd"),
    "any": agg.max("truth"),
    "small least": agg.min("small"),
    "first": agg.first("odd"),
    "last": agg.last("odd"),
    "first truth": agg.first("truth"),
    "last single": agg.last("single"),
    "distinct": agg.approx_distinct("text", error=0.2),
    "numbers": agg.approx_distinct("whole", error=0.2),
}
VALUES = (
    st.integers(-(2**40), 2**40),
    st.integers(-1000, 1000).map(lambda n: n / 8),  # whose sums are exact
    st.sampled_from([0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan")]),
    st.booleans(),
    st.integers(-128, 127),
    st.integers(-100, 100).map(float),
)
LONG = "a text of more than eight bytes"
KEY = st.tuples(st.sampled_from(["", "a", "b", LONG, LONG + "!", None]), st.sampled_from([-1, 0, 7, None]))
WITHOUT_NULLS = st.tuples(KEY, *VALUES)
WITH_NULLS = st.tuples(KEY, *(st.none() | values for values in VALUES))
BATCHES = st.lists(
    st.tuples(
        st.lists(WITHOUT_NULLS, min_size=1, max_size=12) | st.lists(WITH_NULLS, min_size=1, max_size=12),
        st.sampled_from(["combined", "as it is", "hashed"]),
    ),
    max_size=8,
)
KEYS = ["text", "number", "text number"]
BINS = Bins(4)


class Always(CombineHeuristic):
    """It pays, whatever the batch."""

    def __init__(self) -> None:
        super().__init__(0.5)

    def rows_to_try(self, rows: int) -> int:
        return rows

    def keys_max(self, tried: int, rows: int) -> int:
        return tried


class Bench:
    """Aggregates and their partial states, for one key."""

    def __init__(self, key: str | list[str], aggregates: dict[str, agg.Aggregate]) -> None:
        combined = Combined.of(SCHEMA, aggregates, "the test", per_record=False)
        self.key = KeyColumns.of(SCHEMA, key, "the test")
        self.compiled = CompiledAggregates(combined, self.key)
        self.partials = Partials(combined, self.compiled, self.key, Always())

    def sent(self, batch: pa.RecordBatch, how: str) -> pa.RecordBatch:
        """What is sent of a batch."""
        if how == "combined":
            return self.partials.combine(batch)
        if how == "hashed":
            return batch.append_column(pa.field(HASHES, pa.uint64()), pa.array(self.key.hashes(batch)))
        return batch

    def results(self, batches: list[pa.RecordBatch]) -> list[Any]:
        """What an owner gives that these come to: its results after all of them, in the order of changes."""
        table, dirty = Table(BINS, self.compiled.state_words), DirtyEntries()
        for batch in batches:
            keys = self.key.keys(batch)
            if self.partials.are_in(batch):
                self.partials.merge(table, batch, keys, dirty)
            else:
                self.compiled.apply(table, self.compiled.records(batch, keys), dirty)
        arrays = self.compiled.results(table, dirty.take())
        return list(zip(*(array.to_pylist() for array in arrays), strict=True))


@cache
def bench(key: str) -> Bench:
    return Bench(key.split(), AGGREGATES)


def batch_of(rows: list[Any]) -> pa.RecordBatch:
    columns = zip(*((*key, *values) for key, *values in rows), strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Those of one schema that follow each other as one, as an input hands them out."""
    grouped: Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]] = groupby(batches, lambda batch: batch.schema)
    return [pa.concat_batches(list(group)) for _, group in grouped]


def divided_and_put_together(key: KeyColumns, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """What two owners receive, one after the other."""
    owners = pa.array([0, 1, 0, 1], pa.uint16()).to_numpy()
    parts = [divide(batch, key, Division(BINS.shift, owners, 2)) for batch in batches]
    return [part for owner in (0, 1) for part in (of_batch[owner] for of_batch in parts)]


def alike(got: list[Any], wanted: list[Any]) -> None:
    """Exactly, but for the variance, which is rounded."""
    behind = len(AGGREGATES) - list(AGGREGATES).index("variance")
    for one, other in zip(got, wanted, strict=True):
        at = len(one) - behind
        assert repr((*one[:at], *one[at + 1 :])) == repr((*other[:at], *other[at + 1 :]))
        assert (one[at] is None) == (other[at] is None)
        if one[at] is not None:
            assert one[at] == pytest.approx(other[at], nan_ok=True, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("arriving", ["one by one", "joined"])
@given(BATCHES)
def test_combined_or_not_the_results_are_the_same(key: str, arriving: str, batches: list[Any]):
    run = bench(key)
    plain = [batch_of(rows) for rows, _ in batches]
    sent = [run.sent(batch, how) for batch, (_, how) in zip(plain, batches, strict=True)]
    for batch, records, (_, how) in zip(sent, plain, batches, strict=True):
        assert (STATES in batch.schema.names) == (how == "combined")
        if how == "combined":
            distinct = set(zip(*(records.column(name).to_pylist() for name in key.split()), strict=True))
            assert len(batch) == len(distinct)
    alike(run.results(sent if arriving == "one by one" else joined(sent)), run.results(plain))


@pytest.mark.parametrize("key", KEYS)
@given(BATCHES)
def test_partial_states_come_to_the_owners_of_their_keys_as_records_do(key: str, batches: list[Any]):
    run = bench(key)
    plain = [batch_of(rows) for rows, _ in batches]
    sent = [run.sent(batch, how) for batch, (_, how) in zip(plain, batches, strict=True)]
    alike(run.results(divided_and_put_together(run.key, sent)), run.results(divided_and_put_together(run.key, plain)))


def rows_of(*wholes: int) -> pa.RecordBatch:
    return batch_of([(("a", 0), whole, 0.0, 0.0, True, 0, 0.0) for whole in wholes])


def test_a_batch_whose_own_sum_has_too_many_bits_is_sent_as_it_is():
    run = Bench("text", {"sum": agg.sum("whole"), "n": agg.count()})
    first, second = rows_of(-(2**62), -(2**62)), rows_of(2**62, 2**62, -5)
    sent = [run.sent(batch, "combined") for batch in (first, second)]
    assert [STATES in batch.schema.names for batch in sent] == [True, False]
    assert sent[1].schema.names[-1] == HASHES
    assert run.results(sent) == [("a", -5, 5)]
    assert run.results([run.sent(rows_of(1, 2), "combined")]) == [("a", 3, 2)], "what was begun is over"


def test_a_total_that_has_too_many_bits_is_not_given_out():
    run = Bench("text", {"sum": agg.sum("whole")})
    sent = [run.sent(rows_of(2**62), "combined") for _ in range(2)]
    with pytest.raises(OverflowError) as caught:
        run.results(sent)
    assert caught.value.__notes__ == ["the record was {'text': 'a'}"]


def test_a_table_that_has_become_large_is_begun_anew(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("operators.columns.partials.KEPT_BYTES_MAX", 0)
    run = Bench("text", {"n": agg.count()})
    sent = [run.sent(rows_of(*range(n)), "combined") for n in (1, 2, 3)]
    assert run.results(sent) == [("a", 6)]


def test_marks_do_not_run_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("operators.columns.partials.SERIAL_MAX", 3)
    run = Bench("text", {"n": agg.count()})
    sent = [run.sent(rows_of(*range(n)), "combined") for n in (1, 2, 3, 4, 5, 6, 7)]
    assert run.results(sent) == [("a", 28)]


def words(count: int, rows: int) -> pa.RecordBatch:
    return batch_of([((f"word {row * 7919 % count}", 0), 1, 0.0, 0.0, True, 0, 0.0) for row in range(rows)])


def test_mostly_distinct_keys_are_sent_as_they_are_and_few_are_combined():
    combined = Combined.of(SCHEMA, {"n": agg.count()}, "the test", per_record=False)
    key = KeyColumns.of(SCHEMA, "text", "the test")
    partials = Partials(combined, CompiledAggregates(combined, key), key)
    many, few = words(10_007, 10_000), words(100, 10_000)
    assert partials.combine(many) is many
    assert partials.combine(few) is few, "not looked at"
    assert len(partials.combine(few)) == 100
    assert partials.combine(few).schema.names == ["text", STATES, HASHES]
    hashed = partials.combine(many)
    assert hashed.schema.names == [*SCHEMA.names, HASHES], "known only when all keys were hashed"
    assert partials.combine(few) is few


def test_large_states_are_combined_only_with_very_few_keys():
    key = KeyColumns.of(SCHEMA, "text", "the test")
    combined = Combined.of(SCHEMA, {"n": agg.approx_distinct("whole", 0.05)}, "the test", per_record=False)
    partials = Partials(combined, CompiledAggregates(combined, key), key)
    some, few = words(1000, 10_000), words(100, 10_000)
    assert partials.combine(some) is some
    assert partials.combine(few) is few
    assert len(partials.combine(few)) == 100
