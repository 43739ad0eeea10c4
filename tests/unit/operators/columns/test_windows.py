"""Windows over aggregates on columns: while bins move, of every type of event time, and what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import cache
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from framework.errors import GraphError, OperatorFailed, UserError
from framework.launch.config import Config
from framework.launch.execute import example, execute
from framework.worker.worker import Worker
from operators import BinOptions, EpochClock, Late, Pane, WatermarkClock, iterator_source, to_stream
from operators.columns import ColumnInput, window_slices
from operators.columns import aggregates as agg
from operators.columns.window_slices import WindowSlices
from operators.errors import ValueUnfit
from routing.columns.window_state import WindowState
from routing.state.rocks import RocksStore
from tests.unit.operators.moving import Outcome, run_moving
from tests.unit.operators.stateful.windows.test_while_bins_move import EPOCHS, SEEDS, sliding, tumbling
from tests.unit.operators.window_reference import random_events, random_setting

SCHEMA = {"key": str, "at": int, "amount": int}
KINDS = {"tumbling_window": tumbling, "sliding_window": sliding}


@cache
def simulate(kind: str, seed: int) -> tuple[Outcome, Outcome, Outcome, int]:
    """Windows that sum amounts, on bins that move, and by hash; what a loop over all records gives."""
    random = Random(seed)
    setting = random_setting(random, EPOCHS)
    feed = [random_events(random, setting, EPOCHS)]
    shape, reference = KINDS[kind](random)
    bin_states: list[WindowState] = []

    class Watched(WindowState):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            bin_states.append(self)

        def close(self) -> None:
            assert self.bins() == {}
            assert self._open == {}
            super().close()

    def build(streams: list[Any], options: dict[str, Any]) -> list[Any]:
        windows = getattr(streams[0].to_columns(SCHEMA), kind)(
            {"total": agg.sum("amount")},
            key="key",
            event_time="at",
            clock=WatermarkClock(setting.watermark),
            lateness=setting.lateness,
            early="epoch" if setting.early else None,
            **shape,
            **options,
        )
        return [part.to_rows() for part in windows]

    with patch("operators.columns.windowing.WindowState", Watched):
        moved = run_moving(build, feed, seed=seed, columns=True)
    assert bin_states
    return moved.on_bins, moved.by_hash, flat(reference(feed[0], setting)), moved.bins_shipped


def flat(outcome: Outcome) -> Outcome:
    """Results and late records of rows as they are on columns."""
    found: Outcome = {}
    for epoch, rows in outcome.items():
        for part, row in rows:
            if isinstance(row, Late):
                found.setdefault(epoch, []).extend((part, (*row.record, *window)) for window in row.windows)
            else:
                found.setdefault(epoch, []).append((part, (row.key, *row.window, row.value, row.pane.value)))
    return {epoch: sorted(rows, key=repr) for epoch, rows in found.items()}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_they_equal_the_reference_while_bins_move_and_leave_nothing_behind(kind: str, seed: int):
    on_bins, by_hash, expected, _ = simulate(kind, seed)
    assert by_hash == expected
    assert on_bins == expected


@pytest.mark.parametrize("kind", KINDS)
def test_the_simulation_moves_bins_and_has_results_of_every_kind(kind: str):
    runs = [simulate(kind, seed) for seed in SEEDS]
    rows = [pair for _, _, expected, _ in runs for pairs in expected.values() for pair in pairs]
    assert sum(shipped for *_, shipped in runs) > 100
    assert {row[-1] for part, row in rows if part == 0} == {pane.value for pane in Pane}
    assert sum(part for part, _ in rows) > 20


def test_many_keys_on_three_workers():
    """More than there is room for at first in a window, in what has changed, and in a batch of one step."""
    count = 30_000

    def main(worker: Worker) -> Any:
        input = ColumnInput({"key": int, "at": int}, "events")
        with worker.dataflow() as scope:
            windows = input.stream(scope).tumbling_window(
                {"n": agg.count()},
                length=10,
                key="key",
                event_time="at",
                clock=EpochClock(10),
                lateness=10,
                early="epoch",
            )
            results = windows.results.extract()
        for epoch in range(2):
            keys = np.arange(count)
            input.send(pa.record_batch({"key": pa.array(keys), "at": pa.array(keys % 10)}))
            input.advance_to(epoch + 1)
        input.close()
        worker.complete()
        return results

    found = {0: set(), 1: set()}  # type: dict[Any, set[Any]]
    for extracted in execute(main, Config(threads=3)):
        for epoch, rows in extracted.by_time().items():
            assert found[epoch].isdisjoint(rows)
            found[epoch].update(rows)
    assert found[0] == {(key, 0, 10, 3, "closed") for key in range(count)}
    assert found[1] == {(key, 0, 10, 6, "corrected") for key in range(count)}


DAY_US = 24 * 3600 * 10**6


@pytest.mark.parametrize(
    ("kind", "length", "times", "borders"),
    [
        (pa.int16(), 10, [3, -1], [(0, 10), (-10, 0)]),
        (pa.uint32(), 10, [3, 11], [(0, 10), (10, 20)]),
        (pa.date32(), 7, [date(1970, 1, 2), date(1969, 12, 31)],
         [(date(1970, 1, 1), date(1970, 1, 8)), (date(1969, 12, 25), date(1970, 1, 1))]),
        (pa.timestamp("us", "UTC"), DAY_US, [datetime(2026, 3, 1, 12, tzinfo=UTC)],
         [(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC))]),
        (pa.timestamp("s"), 60, [datetime(2026, 3, 1, 12, 0, 59)],
         [(datetime(2026, 3, 1, 12), datetime(2026, 3, 1, 12, 1))]),
    ],
    ids=str,
)  # fmt: skip
def test_windows_begin_and_end_in_the_type_of_the_event_time(kind: Any, length: int, times: Any, borders: Any):
    def build(scope: Any) -> Any:
        events = to_stream(scope, [("a", time) for time in times]).to_columns({"key": str, "at": kind})
        windows = events.tumbling_window(
            {"n": agg.count()},
            length=length,
            key="key",
            event_time="at",
            clock=EpochClock(length * 10**9, start=-(10**12)),
        )
        assert windows.results.schema.names == ["key", "start", "end", "n", "pane"]
        assert windows.results.schema.types == [pa.string(), kind, kind, pa.int64(), pa.string()]
        assert windows.late.schema.names == ["key", "at", "start", "end"]
        return windows.results.extract()

    rows = example(build).rows()
    assert sorted(rows) == sorted(("a", start, end, 1, "closed") for start, end in borders)


def test_a_record_that_is_late_comes_with_all_its_columns_once_for_each_window_that_it_missed():
    epochs: list[tuple[int, list[Any]]] = [
        (0, [("a", 1, None, "x")]),
        (5, [("a", 17, 2.5, "y"), ("b", 3, None, None), ("b", 31, 1.0, "z")]),
    ]

    def build(scope: Any) -> Any:
        columns = iterator_source(scope, epochs).to_columns({"key": str, "at": int, "more": float, "text": str})
        windows = columns.sliding_window(
            {"n": agg.count()}, length=10, step=5, key="key", event_time="at", clock=EpochClock(5), lateness=0
        )
        return windows.results.extract(), windows.late.extract()

    results, late = example(build)
    assert sorted(late.by_time()[5]) == [
        ("a", 17, 2.5, "y", 10, 20),
        ("a", 17, 2.5, "y", 15, 25),
        ("b", 3, None, None, -5, 5),
        ("b", 3, None, None, 0, 10),
    ]
    assert results.by_time() == {
        0: [("a", -5, 5, 1, "closed")],
        1: [("a", 0, 10, 1, "closed")],
        6: [("b", 25, 35, 1, "closed")],
        7: [("b", 30, 40, 1, "closed")],
    }


@pytest.mark.parametrize("slices_max", [0, 4096])
def test_events_of_many_windows_are_divided_alike_whether_counted_or_sorted(slices_max: int, monkeypatch: Any):
    monkeypatch.setattr(window_slices, "COUNTED_SLICES_MAX", slices_max)
    random = np.random.default_rng(1)
    times = random.integers(-500, 500, 1000)
    order, found = WindowSlices(length=15, step=4, offset=3).divide(times)
    assert order is not None
    placed = [
        (int(order[row]), start) for span in found for row in range(span.first, span.end) for start in span.starts
    ]
    starts = range(-600, 600)
    wanted = {(row, s) for row, time in enumerate(times) for s in starts if (s - 3) % 4 == 0 and s <= time < s + 15}
    assert len(placed) == len(wanted)
    assert set(placed) == wanted


# What cannot be


def refused(**changes: Any) -> str:
    def build(scope: Any) -> Any:
        columns = to_stream(scope, []).to_columns({"key": str, "at": int, "price": float, "big": pa.uint64()})
        arguments: dict[str, Any] = {"length": 10, "key": "key", "event_time": "at", "clock": EpochClock(5)}
        columns.tumbling_window(**{"aggregates": {"n": agg.count()}, **arguments, **changes})

    with pytest.raises((GraphError, UserError)) as caught:
        example(build)
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"event_time": "att"}, "operator 'tumbling_window' has no column 'att'; it has 'key', 'at', 'price', 'big'"),
        ({"event_time": "price"}, "has the event time 'price', which is double; let it be an integer of 64 bits"),
        ({"event_time": "key"}, "has the event time 'key', which is string"),
        ({"event_time": "big"}, "has the event time 'big', which is uint64"),
        ({"key": "who"}, "has no column 'who'"),
        ({"key": []}, "has no key"),
        ({"aggregates": {}}, "has nothing to keep"),
        ({"aggregates": {"n": agg.sum("cents")}}, "has no column 'cents'"),
        ({"aggregates": {"n": agg.sum("key")}}, "column 'key' is string"),
        ({"aggregates": {"end": agg.count()}}, "two columns 'end' in its results: key, start, end, end, pane"),
        ({"aggregates": {"key": agg.count()}}, "would have two columns 'key' in its results"),
        ({"length": 0}, "cannot have windows of length 0 every 0"),
        ({"lateness": -1}, "received lateness=-1"),
        ({"early": "always"}, "received early='always'"),
        ({"bins": BinOptions(store=RocksStore.maker())}, "leave `store` out of its BinOptions"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_while_the_dataflow_is_built(changes: Any, said: str):
    assert said in refused(**changes)


def test_records_with_columns_that_windows_have_are_told_while_the_dataflow_is_built():
    def build(scope: Any) -> Any:
        columns = to_stream(scope, []).to_columns({"key": str, "start": int})
        columns.tumbling_window({"n": agg.count()}, length=1, key="key", event_time="start", clock=EpochClock(1))

    with pytest.raises(GraphError, match="would have two columns 'start' in its late records: key, start, start, end"):
        example(build)


@pytest.mark.parametrize(
    ("kind", "time", "said"),
    [
        (pa.int64(), None, "the event time 'at' is null in {'key': 'b', 'at': None}; fill it"),
        (pa.int8(), 125, "a window begins or ends at 130, and the event time 'at' is int8"),
        (pa.uint8(), 255, "a window begins or ends at 260, and the event time 'at' is uint8"),
        (pa.int64(), 2**63 - 1, "event time 9223372036854775807 is too far from 0"),
        (pa.int64(), -(2**63), "event time -9223372036854775808 is too far from 0"),
    ],
)
def test_event_times_that_no_window_can_have_are_told(kind: Any, time: Any, said: str):
    def build(scope: Any) -> Any:
        columns = to_stream(scope, [("a", 1), ("b", time)]).to_columns({"key": str, "at": kind})
        columns.tumbling_window({"n": agg.count()}, length=10, key="key", event_time="at", clock=EpochClock(5))

    with pytest.raises(OperatorFailed) as caught:
        example(build)
    assert isinstance(caught.value.__cause__, ValueUnfit)
    assert said in str(caught.value.__cause__)


def test_a_sum_that_overflows_names_the_record():
    def build(scope: Any) -> Any:
        rows = [("a", 3, 2**62), ("b", 14, 1), ("a", 4, 2**62)]
        columns = to_stream(scope, rows).to_columns(SCHEMA)
        columns.tumbling_window({"n": agg.sum("amount")}, length=10, key="key", event_time="at", clock=EpochClock(5))

    with pytest.raises(OperatorFailed) as caught:
        example(build)
    assert "the record was {'key': 'a', 'amount': 4611686018427387904}" in caught.value.__cause__.__notes__  # type: ignore[union-attr]
