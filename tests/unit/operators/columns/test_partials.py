"""Aggregates whose batches are combined before they are sent: where they are, where not, and while bins move."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from framework.errors import OperatorFailed, ProtocolError
from framework.launch.config import Config
from framework.launch.execute import example, execute
from framework.worker.worker import Worker
from operators import ControlInput, Input, Probe, iterator_source
from operators.columns import ColumnInput
from operators.columns import aggregates as agg
from operators.columns.aggregating import CompiledAggregates
from operators.columns.combining import Combined
from operators.columns.partials import STATES, Partials
from routing.bins import Bins
from routing.columns.keys import KeyColumns
from routing.columns.table.dirty_entries import DirtyEntries
from routing.columns.table.table import Table
from tests.unit.operators.moving import Feed, by_epoch, run_moving

SCHEMA = {"key": str, "epoch": int, "whole": int, "real": float}
AGGREGATES = {
    "count": agg.count(),
    "wholes": agg.count("whole"),
    "sum": agg.sum("whole"),
    "real": agg.sum("real"),
    "least": agg.min("whole"),
    "greatest": agg.max("real"),
    "mean": agg.mean("whole"),
    "first": agg.first("epoch"),
    "last": agg.last("epoch"),
    "distinct": agg.approx_distinct("whole", error=0.3),
}


@pytest.fixture
def combined(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows are sent of each batch that was combined, on any worker."""
    seen: list[int] = []
    combine = Partials.combine

    def noting(self: Partials, batch: Any) -> Any:
        made = combine(self, batch)
        if Partials.are_in(made):
            assert len(made) < len(batch)
            seen.append(len(made))
        return made

    monkeypatch.setattr(Partials, "combine", noting)
    return seen


def feed_of(seed: int) -> Feed:
    """Epochs of many records of some keys, or of few, with nulls or without."""
    random = Random(seed)
    epochs: list[list[Any]] = []
    for epoch in range(12):
        keys, nulls = random.choice((1, 3, 40)), random.random() < 0.5
        rows = [
            (
                f"key {random.randrange(keys)}",
                epoch,
                None if nulls and random.random() < 0.3 else random.randrange(-50, 50),
                None if nulls and random.random() < 0.3 else random.randrange(100) / 8,
            )
            for _ in range(random.choice((0, 3, 200, 200)))
        ]
        epochs.append(rows)
    return [epochs]


def on_one_worker(epochs: list[list[Any]]) -> Any:
    def build(scope: Any) -> Any:
        columns = iterator_source(scope, enumerate(epochs)).to_columns(SCHEMA)
        return columns.stateful_aggregate(AGGREGATES, key="key").extract()

    return example(build).by_time()


def test_while_bins_move_all_is_as_on_one_worker(combined: list[int]):
    def build(streams: list[Any], options: dict[str, Any]) -> list[Any]:
        return [streams[0].to_columns(SCHEMA).stateful_aggregate(AGGREGATES, key="key", **options).to_rows()]

    shipped = batches = 0
    for seed in range(12):
        feed = feed_of(seed)
        wanted = by_epoch([(time, row) for time, rows in on_one_worker(feed[0]).items() for row in rows])
        assert not combined, "one worker combines nothing"
        run = run_moving(build, feed, seed=seed, columns=True)
        assert run.on_bins == run.by_hash == wanted, seed
        shipped += run.bins_shipped
        batches += len(combined)
        combined.clear()
    assert shipped > 50
    assert batches > 100


def test_first_and_last_are_those_of_the_order_in_which_a_worker_sends(combined: list[int]):
    """Whether batches are combined or not, which they are in turns: what has many keys is not."""
    aggregates = {"n": agg.count(), "first": agg.first("whole"), "last": agg.last("whole")}

    def main(worker: Worker) -> Any:
        rows, probe = ColumnInput({"key": str, "whole": int}), Probe()
        with worker.dataflow() as scope:
            counts = rows.stream(scope).stateful_aggregate(aggregates, key="key").probe(probe)
            extracted = counts.extract()
        sent = 0
        for batch in range(12 if worker.index == 0 else 0):
            keys = 10 if batch % 3 else 20_000
            # More rows than are joined on the way.
            numbers = range(sent, sent + 20_000)
            keyed = [f"key {number % keys}" for number in numbers]
            rows.send(pa.record_batch({"key": keyed, "whole": list(numbers)}))
            sent += 20_000
        rows.close()
        worker.step_while(lambda: not probe.done())
        return extracted

    got = [row for extracted in execute(main, Config(threads=2)) for row in extracted.rows()]
    last: dict[str, list[int]] = {}
    for batch in range(12):
        for number in range(20_000 * batch, 20_000 * (batch + 1)):
            last.setdefault(f"key {number % (10 if batch % 3 else 20_000)}", []).append(number)
    assert sorted(got) == sorted((key, len(numbers), numbers[0], numbers[-1]) for key, numbers in last.items())
    assert combined


def test_with_a_sole_owner_nothing_is_combined_and_with_several_all_are(combined: list[int]):
    """All bins are on the first worker until the third epoch."""
    words = ["a"] * 500 + ["b"] * 500

    def main(worker: Worker) -> Any:
        rows, control, probe = Input[str](), ControlInput(), Probe()
        with worker.dataflow() as scope:
            columns = rows.stream(scope).to_columns({"word": str})
            counts = columns.stateful_aggregate(
                {"n": agg.count()}, key="word", control=control.stream(scope).broadcast(), bins=16
            )
            extracted = counts.probe(probe).extract()
        if worker.index == 0:
            control.map([0] * 16)
        seen = []
        for epoch in range(4):
            if worker.index == 0 and epoch == 2:
                control.map([0, 1] * 8)
            rows.send_batch(words)
            control.advance_to(epoch + 1)
            rows.advance_to(epoch + 1)
            worker.step_while(partial(probe.less_than, epoch + 1))
            seen.append(len(combined))
        return extracted, seen

    runs = execute(main, Config(threads=2))
    for _, (first, second, third, fourth) in runs:
        assert first == second == 0
        assert 0 < third < fourth
    totals = {(time, row) for extracted, _ in runs for time, rows in extracted.by_time().items() for row in rows}
    assert totals == {(epoch, (word, 1000 * (epoch + 1))) for epoch in range(4) for word in "ab"}


def test_a_job_whose_batch_exceeds_64_bits_but_not_its_total_goes_on(combined: list[int]):
    batches = [[-(2**62)] * 2, [2**62, 2**62] + [0] * 100, [1] * 100]

    def main(worker: Worker) -> Any:
        with worker.dataflow() as scope:
            rows = [(epoch, [("a", n) for n in batch]) for epoch, batch in enumerate(batches)]
            columns = iterator_source(scope, rows if worker.index == 0 else []).to_columns({"key": str, "n": int})
            return columns.stateful_aggregate({"sum": agg.sum("n")}, key="key").extract()

    got = {time: rows for extracted in execute(main, Config(threads=2)) for time, rows in extracted.by_time().items()}
    assert got == {0: [("a", -(2**63))], 1: [("a", 0)], 2: [("a", 100)]}


def test_a_total_that_exceeds_64_bits_fails_and_names_the_key():
    def main(worker: Worker) -> Any:
        with worker.dataflow() as scope:
            rows = [(epoch, [("a", 2**57)] * 32) for epoch in range(2)]
            columns = iterator_source(scope, rows if worker.index == 0 else []).to_columns({"key": str, "n": int})
            return columns.stateful_aggregate({"sum": agg.sum("n")}, key="key").extract()

    with pytest.raises(OperatorFailed) as caught:
        execute(main, Config(threads=2))
    assert isinstance(caught.value.__cause__, OverflowError)
    assert caught.value.__cause__.__notes__[0] == "the record was {'key': 'a'}"


TEXTS = [None if n % 11 == 0 else f"k{n % 6}" for n in range(400)]
NUMBERS = [None if n % 11 == 0 else n % 6 for n in range(400)]


@pytest.mark.parametrize(
    "key",
    [
        pa.array(TEXTS).dictionary_encode(),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS, pa.string_view()),
        pa.array(TEXTS).cast(pa.binary()).cast(pa.binary(2)),
        pa.array(NUMBERS, pa.uint64()),
        pa.array(NUMBERS, pa.float32()),
        pa.array(NUMBERS, pa.int32()).cast(pa.date32()),
        pa.array(NUMBERS, pa.int64()).cast(pa.timestamp("us", "UTC")),
    ],
    ids=lambda key: str(key.type),
)
def test_keys_of_any_type_are_combined(key: pa.Array, combined: list[int]):
    batch = pa.record_batch({"key": key, "number": pa.array(range(400))})
    aggregates = {"n": agg.count(), "sum": agg.sum("number"), "last": agg.last("number"), "keys": agg.count("key")}

    def main(worker: Worker) -> Any:
        rows, probe = ColumnInput(batch.schema), Probe()
        with worker.dataflow() as scope:
            extracted = rows.stream(scope).stateful_aggregate(aggregates, key="key").probe(probe).extract()
        for epoch in range(3):
            if worker.index == 0:
                rows.send(batch.slice(epoch))
            rows.advance_to(epoch + 1)
            worker.step_while(partial(probe.less_than, epoch + 1))
        return extracted

    one, two = (
        {
            (time, row)
            for extracted in execute(main, config)
            for time, rows in extracted.by_time().items()
            for row in rows
        }
        for config in (Config(), Config(threads=2))
    )
    assert one == two
    assert len(one) == 3 * 7
    assert combined == [7, 7, 7]


def partials_of(aggregates: dict[str, agg.Aggregate]) -> tuple[Partials, Table]:
    schema = pa.schema({"key": pa.string(), "n": pa.int64()})
    key = KeyColumns.of(schema, "key", "a test")
    combined = Combined.of(schema, aggregates, "a test", per_record=False)
    return Partials(combined, CompiledAggregates(combined, key), key), Table(Bins(1), combined.state_words)


@pytest.mark.parametrize("states", [pa.array([bytes(1)], pa.binary(1)), pa.array([None], pa.binary(16)), pa.array([1])])
def test_partial_states_of_another_size_are_refused(states: pa.Array):
    partials, table = partials_of({"sum": agg.sum("n")})
    batch = pa.record_batch({"key": ["tea"], STATES: states})
    with pytest.raises(ProtocolError, match="partial states of 16 bytes came as"):
        partials.merge(table, batch, KeyColumns.of(batch.schema, "key", "a test").keys(batch), DirtyEntries())


def test_a_sketch_with_a_rank_that_no_hash_has_is_refused():
    partials, table = partials_of({"distinct": agg.approx_distinct("n", error=0.3)})
    rows = pa.record_batch({"key": ["tea"] * 100, "n": list(range(100))})
    batch = partials.combine(rows)
    assert Partials.are_in(batch)
    [states] = batch.column(STATES).to_pylist()
    wrong = pa.array([states[:-16] + b"\xff" * 16], batch.column(STATES).type)
    batch = batch.set_column(batch.schema.get_field_index(STATES), STATES, wrong)
    with pytest.raises(ProtocolError, match="a rank that no hash has"):
        partials.merge(table, batch, KeyColumns.of(batch.schema, "key", "a test").keys(batch), DirtyEntries())
