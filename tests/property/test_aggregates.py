"""Running aggregates on columns, against Python's own over all that has come so far."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import GraphError, OperatorFailed
from framework.launch.config import Config
from framework.launch.execute import example, execute
from framework.worker.worker import Worker
from operators import iterator_source, to_stream
from operators.columns import aggregates as agg
from tests.unit.operators.moving import Feed, by_epoch, run_moving

SCHEMA = {"key": str, "whole": int, "real": float}
WHOLE, REAL = st.integers(-1000, 1000), st.integers(-1000, 1000).map(lambda n: n / 8)
ROW = st.tuples(st.sampled_from("abc"), WHOLE, REAL)
WITH_NULLS = st.tuples(st.sampled_from("abc"), st.none() | WHOLE, st.none() | REAL)
EPOCHS = st.lists(st.one_of(st.lists(ROW, max_size=8), st.lists(WITH_NULLS, max_size=8)), max_size=4)
"""Epochs of which some have nulls."""
AGGREGATES = {
    "count": agg.count(),
    "wholes": agg.count("whole"),
    "keys": agg.count("key"),
    "whole": agg.sum("whole"),
    "real": agg.sum("real"),
    "least": agg.min("whole"),
    "greatest": agg.max("real"),
    "mean": agg.mean("whole"),
    "variance": agg.variance("real"),
    "first": agg.first("real"),
    "last": agg.last("whole"),
}


def expected(rows: list[tuple[str, int | None, float | None]]) -> tuple[Any, ...]:
    whole = [row[1] for row in rows if row[1] is not None]
    real = [row[2] for row in rows if row[2] is not None]
    variance = statistics.variance(real) if len(real) > 1 else math.nan
    return (
        rows[0][0],
        len(rows),
        len(whole),
        len(rows),
        sum(whole) if whole else None,
        sum(real) if real else None,
        min(whole, default=None),
        max(real, default=None),
        statistics.fmean(whole) if whole else None,
        pytest.approx(variance, nan_ok=True, abs=1e-6) if real else None,
        real[0] if real else None,
        whole[-1] if whole else None,
    )


def results(epochs: list[list[Any]], emit: Literal["record", "epoch"], aggregates: Any = AGGREGATES) -> Any:
    def build(scope: Any) -> Any:
        source = iterator_source(scope, enumerate(epochs)).to_columns(SCHEMA)
        return source.stateful_aggregate(aggregates, key="key", emit=emit).extract()

    return example(build).by_time()


@given(EPOCHS)
def test_each_record_gives_the_aggregates_up_to_it(epochs: list[list[Any]]):
    seen: dict[str, list[Any]] = defaultdict(list)
    wanted: dict[int, list[Any]] = {}
    for epoch, rows in enumerate(epochs):
        for row in rows:
            seen[row[0]].append(row)
            wanted.setdefault(epoch, []).append(expected(seen[row[0]]))
    assert results(epochs, "record") == wanted


@given(EPOCHS)
def test_each_epoch_gives_those_of_its_keys(epochs: list[list[Any]]):
    seen: dict[str, list[Any]] = defaultdict(list)
    wanted: dict[int, list[Any]] = {}
    for epoch, rows in enumerate(epochs):
        for row in rows:
            seen[row[0]].append(row)
        if rows:
            wanted[epoch] = [expected(seen[key]) for key in dict.fromkeys(row[0] for row in rows)]
    assert results(epochs, "epoch") == wanted


def test_many_keys_in_an_epoch_on_three_workers():
    words = [f"word {number % 5000}" for number in range(20_000)]

    def main(worker: Worker) -> Any:
        with worker.dataflow() as scope:
            columns = iterator_source(scope, [(0, words), (1, words[:3])] if worker.index == 0 else [])
            counts = columns.to_columns({"word": str}).stateful_aggregate({"n": agg.count()}, key="word")
            return counts.extract()

    by_epoch: dict[int, dict[str, int]] = defaultdict(dict)
    for extracted in execute(main, Config(threads=3)):
        for epoch, rows in extracted.by_time().items():
            for word, n in rows:
                assert word not in by_epoch[epoch]
                by_epoch[epoch][word] = n
    assert by_epoch == {0: dict.fromkeys(words, 4), 1: dict.fromkeys(words[:3], 5)}


def test_a_sum_that_exceeds_64_bits_is_not_given_out():
    with pytest.raises(OperatorFailed) as caught:
        results([[("a", 2**62, 0.0), ("a", 2**62, 0.0)]], "epoch", {"sum": agg.sum("whole")})
    assert isinstance(caught.value.__cause__, OverflowError)
    assert "a sum of integers exceeds 64 bits" in str(caught.value.__cause__)


def test_nan_counts_only_if_there_is_nothing_else():
    rows = [("a", 0, math.nan), ("a", 0, 2.0), ("a", 0, math.nan), ("b", 0, math.nan)]
    [a, b] = results([rows], "epoch", {"least": agg.min("real"), "greatest": agg.max("real")})[0]
    assert a == ("a", 2.0, 2.0)
    assert math.isnan(b[1])
    assert math.isnan(b[2])


def test_what_is_null_can_be_of_any_type_and_is_null_in_its_own_type():
    schema = {"key": str, "truth": bool, "small": pa.int8(), "single": pa.float32(), "text": str}
    rows = [("a", None, None, None, None), ("b", True, 3, 0.5, "x"), ("b", None, None, None, None)]
    aggregates = {
        "truth": agg.min("truth"),
        "small": agg.max("small"),
        "sum": agg.sum("small"),
        "single": agg.last("single"),
        "texts": agg.count("text"),
    }

    def build(scope: Any) -> Any:
        columns = to_stream(scope, rows).to_columns(schema).stateful_aggregate(aggregates, key="key")
        assert columns.schema.types == [pa.string(), pa.bool_(), pa.int8(), pa.int64(), pa.float32(), pa.int64()]
        return columns.extract()

    assert example(build).rows() == [("a", None, None, None, None, 0), ("b", True, 3, 3, 0.5, 1)]


def test_what_was_null_stays_so_while_bins_move():
    feed: Feed = [[[("a", None, None), ("b", 1, None)], [("a", None, 1.5)], [("b", None, None)], [("a", 4, None)]] * 3]
    aggregates = {"n": agg.count(), "whole": agg.sum("whole"), "real": agg.max("real")}

    def build(streams: list[Any], options: dict[str, Any]) -> list[Any]:
        return [streams[0].to_columns(SCHEMA).stateful_aggregate(aggregates, key="key", **options).to_rows()]

    runs = [run_moving(build, feed, seed=seed, columns=True) for seed in range(6)]
    assert sum(run.bins_shipped for run in runs) > 10
    wanted = results(feed[0], "epoch", aggregates)
    for run in runs:
        assert run.on_bins == run.by_hash == by_epoch([(time, row) for time, rows in wanted.items() for row in rows])


@pytest.mark.parametrize(
    ("aggregates", "said"),
    [
        ({}, "has nothing to keep"),
        ({"n": agg.sum("none")}, "has no column 'none'; it has 'key', 'whole', 'real'"),
        ({"n": agg.sum("key")}, "column 'key' is string"),
    ],
)
def test_what_cannot_be_is_told_while_the_dataflow_is_built(aggregates: Any, said: str):
    with pytest.raises(GraphError, match=said):
        results([], "epoch", aggregates)
