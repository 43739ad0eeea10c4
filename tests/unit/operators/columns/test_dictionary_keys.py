"""Keys that a job's own batches have in Arrow dictionaries: all that keeps state gives what it gives for plain keys."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from framework.launch.config import Config
from framework.launch.execute import execute
from framework.worker.worker import Worker
from operators import EpochClock
from operators.columns import ColumnInput, Columns
from operators.columns import aggregates as agg
from tests.cramped import small_dictionaries, small_regions

PLAIN, CODED = pa.string(), pa.dictionary(pa.int8(), pa.string())
WORDS = ["tea", "", "milk", "a longer key than eight bytes"]
EPOCHS = 4


def count(word: str, n: int, total: int) -> Any:
    total += n
    return total, [(word, total)]


def folded(columns: Columns, kind: pa.DataType) -> Columns:
    output = {"word": kind, "total": int}
    return columns.stateful_state_machine(count, key="word", value="n", state={"t": int}, initial=0, output=output)


def aggregated(columns: Columns, kind: pa.DataType) -> Columns:
    return columns.stateful_aggregate({"sum": agg.sum("n"), "last": agg.last("n")}, key="word")


def aggregated_per_record(columns: Columns, kind: pa.DataType) -> Columns:
    return columns.stateful_aggregate({"sum": agg.sum("n")}, key="word", emit="record")


def aggregated_by_two(columns: Columns, kind: pa.DataType) -> Columns:
    return columns.stateful_aggregate({"sum": agg.sum("n")}, key=["word", "at"])


def windowed(columns: Columns, kind: pa.DataType) -> Columns:
    windows, _ = columns.tumbling_window(
        {"sum": agg.sum("n")}, key="word", event_time="at", length=2, clock=EpochClock(1)
    )
    return windows


def some_batches(seed: int, kind: pa.DataType, *, nulls: bool) -> list[pa.RecordBatch]:
    """One per epoch; dictionaries differ, have values that no row has, and are sliced."""
    random, found = Random(seed), []
    for epoch in range(EPOCHS):
        rows = random.randrange(6, 40)
        keys = [random.choice([*WORDS, None] if nulls else WORDS) for _ in range(rows)]
        values = [*WORDS, "unused"]
        random.shuffle(values)
        codes = pa.array([None if key is None else values.index(key) for key in keys], pa.int8())
        word = pa.DictionaryArray.from_arrays(codes, pa.array(values))
        batch = pa.record_batch(
            {
                "word": word if kind == CODED else word.cast(pa.string()),
                "n": pa.array([random.randrange(9) for _ in keys], pa.int64()),
                "at": pa.array([epoch + random.randrange(4) for _ in keys], pa.int64()),
            }
        )
        found.append(batch.slice(random.randrange(3)))
    return found


def run(build: Callable[[Columns, pa.DataType], Columns], kind: pa.DataType, workers: int, *, nulls: bool) -> Any:
    """What comes out, by epoch, as text. One worker sends, so that the records of a key have an order."""

    def main(worker: Worker) -> Any:
        input = ColumnInput({"word": kind, "n": int, "at": int})
        with worker.dataflow() as scope:
            result = build(input.stream(scope), kind).extract()
        if worker.index == 0:
            for epoch, batch in enumerate(some_batches(7, kind, nulls=nulls)):
                input.advance_to(epoch)
                input.send(batch)
        return result

    with small_dictionaries(), small_regions():
        results = execute(main, Config(threads=workers))
    found: dict[Any, list[str]] = {}
    for result in results:
        for time, rows in result.by_time().items():
            found.setdefault(time, []).extend(map(repr, rows))
    return {time: sorted(rows) for time, rows in found.items()}


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("build", [folded, aggregated, aggregated_per_record, aggregated_by_two, windowed])
def test_they_give_what_plain_keys_give(build: Any, workers: int, nulls: bool):
    plainly = run(build, PLAIN, workers, nulls=nulls)
    assert run(build, CODED, workers, nulls=nulls) == plainly
    assert sum(map(len, plainly.values())) > len(WORDS)
