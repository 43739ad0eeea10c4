"""`approx_distinct`: near the true numbers, and just what a sketch gives, whatever the order, type or worker."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import GraphError, UserError
from framework.launch.execute import example, execute
from framework.worker.worker import Worker
from operators import EpochClock, iterator_source, to_stream
from operators.columns import ColumnInput
from operators.columns import aggregates as agg
from routing.columns.hyperloglog import bits_for
from routing.hashing import stable_hash
from tests.unit.operators.moving import Feed, by_epoch, run_moving

ERROR = 0.05
DISTINCT = {"distinct": agg.approx_distinct("value", ERROR)}


def sketched(values: list[Any], error: float = ERROR) -> int:
    """What a HyperLogLog sketch gives, by its definition."""
    bits = bits_for(error)
    registers = [0] * 2**bits
    for value in values:
        if value is not None:
            hash = stable_hash(value)
            rest = hash % 2 ** (64 - bits)
            rank = (rest & -rest).bit_length() if rest else 64
            place = hash >> (64 - bits)
            registers[place] = max(registers[place], min(rank, 62 - bits))
    count, zeros = len(registers), registers.count(0)
    bias = {16: 0.673, 32: 0.697, 64: 0.709}.get(count, 0.7213 / (1 + 1.079 / count))
    estimate = bias * count**2 / math.fsum(2.0**-rank for rank in registers)
    if estimate <= 2.5 * count and zeros:
        estimate = count * math.log(count / zeros)
    return math.floor(estimate + 0.5)


def run(batches: list[pa.RecordBatch], aggregates: Any = DISTINCT) -> dict[Any, int]:
    """The last number of each key."""

    def main(worker: Worker) -> Any:
        input = ColumnInput(batches[0].schema, "values")
        with worker.dataflow() as scope:
            found = input.stream(scope).stateful_aggregate(aggregates, key="key").extract()
        for epoch, batch in enumerate(batches):
            input.advance_to(epoch)
            input.send(batch)
        input.close()
        worker.complete()
        return found

    return dict(execute(main)[0].rows())


@pytest.mark.parametrize(("size", "keys"), [(1, 200), (10, 200), (100, 200), (1000, 200), (5000, 100), (10**6, 2)])
@pytest.mark.parametrize("error", [0.02, 0.05, 0.2])
def test_it_is_off_by_its_standard_error(size: int, keys: int, error: float):
    values = np.repeat(np.arange(size * keys), 2)
    found = run([pa.record_batch({"key": values // size, "value": values})], {"d": agg.approx_distinct("value", error)})
    off = np.array([found[key] / size - 1 for key in range(keys)])
    assert np.abs(off).max() < 5 * error
    if keys > 10:
        assert math.sqrt(np.mean(off**2)) < 1.2 * error
        assert abs(np.mean(off)) < 0.3 * error + 0.01


VALUES = st.one_of(
    st.tuples(st.just(str), st.lists(st.none() | st.text(max_size=12))),
    st.tuples(st.just(int), st.lists(st.none() | st.integers(-20, 20) | st.integers(-(2**63), 2**63 - 1))),
    st.tuples(st.just(float), st.lists(st.none() | st.floats())),
    st.tuples(st.just(bool), st.lists(st.none() | st.booleans())),
    st.tuples(st.just(date), st.lists(st.none() | st.dates())),
)


@given(VALUES, st.randoms(use_true_random=False))
def test_it_is_what_the_values_hashes_as_keys_on_rows_give_in_whatever_order(
    values: tuple[Any, list[Any]], random: Any
):
    kind, some = values
    for order in (some, random.sample(some, len(some))):
        halves = [(0, [("a", value) for value in order[::2]]), (3, [("a", value) for value in order[1::2]])]

        def build(scope: Any, halves: Any = halves) -> Any:
            columns = iterator_source(scope, halves).to_columns({"key": str, "value": kind})
            return columns.stateful_aggregate(DISTINCT, key="key").extract()

        assert [number for _, number in example(build).rows()][-1:] == [sketched(some)][: len(some)]


def test_the_order_of_many_values_does_not_matter():
    random = np.random.default_rng(3)
    values = random.integers(0, 10**5, 200_000)
    found = set()
    for order in (values, np.sort(values), values[::-1].copy(), np.unique(values)):
        halves = np.array_split(order, 3)
        found.add(run([pa.record_batch({"key": np.zeros(len(half), np.int64), "value": half}) for half in halves])[0])
    assert len(found) == 1
    assert found.pop() == pytest.approx(len(np.unique(values)), rel=4 * ERROR)


def test_ten_thousand_keys_have_sketches_of_their_own():
    keys = np.tile(np.arange(10_000), 20)
    values = np.repeat(np.arange(20), 10_000) % (1 + keys % 20)
    found = run([pa.record_batch({"key": keys, "value": values})])
    of_few = {size: sketched(list(range(size))) for size in range(1, 21)}
    assert found == {key: of_few[1 + key % 20] for key in range(10_000)}


def test_a_key_that_has_had_nulls_only_has_no_values():
    rows = [("a", None), ("b", None), ("b", 1)]

    def build(scope: Any) -> Any:
        both = {**DISTINCT, "values": agg.count("value"), "least": agg.min("value")}
        return (
            to_stream(scope, rows).to_columns({"key": str, "value": int}).stateful_aggregate(both, key="key").extract()
        )

    assert example(build).rows() == [("a", 0, 0, None), ("b", 1, 1, 1)]


FEED: Feed = [
    [[(f"key {n % 5}", f"value {n * n % 97}") for n in range(40 * epoch, 60 * epoch + 10)] for epoch in range(6)]
]


@pytest.mark.parametrize("seed", range(6))
def test_sketches_move_with_their_bins(seed: int):
    def build(streams: list[Any], options: dict[str, Any]) -> list[Any]:
        columns = streams[0].to_columns({"key": str, "value": str})
        return [columns.stateful_aggregate(DISTINCT, key="key", **options).to_rows()]

    seen: defaultdict[str, list[str]] = defaultdict(list)
    expected = []
    for epoch, rows in enumerate(FEED[0]):
        for key, value in rows:
            seen[key].append(value)
        expected += [(epoch, (key, sketched(seen[key]))) for key in {key for key, _ in rows}]
    moved = run_moving(build, FEED, seed=seed, columns=True)
    assert moved.on_bins == moved.by_hash == by_epoch(expected)


def test_windows_have_sketches_too():
    def build(scope: Any) -> Any:
        rows = [("a", at, at % 7) for at in range(40)]
        columns = to_stream(scope, rows).to_columns({"key": str, "at": int, "value": int})
        windows = columns.sliding_window(
            DISTINCT, length=10, step=5, key="key", event_time="at", clock=EpochClock(1000), offset=0
        )
        return windows.results.extract()

    windows = {start: [at % 7 for at in range(max(0, start), min(40, start + 10))] for start in range(-5, 40, 5)}
    assert sorted(example(build).rows()) == [
        ("a", start, start + 10, sketched(values), "closed") for start, values in sorted(windows.items())
    ]


def test_what_cannot_be_is_told_while_the_dataflow_is_built():
    for error in (0, 1, -0.1, 0.001, math.nan):
        with pytest.raises(UserError, match=r"approx_distinct\('value'\) received error="):
            agg.approx_distinct("value", error)
    with pytest.raises(GraphError, match="column 'value' is list<item: int64> and cannot be a key"):
        example(
            lambda scope: (
                to_stream(scope, [])
                .to_columns({"key": str, "value": list[int]})
                .stateful_aggregate(DISTINCT, key="key")
            )
        )
