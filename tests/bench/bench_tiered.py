"""Columns whose keys do not fit into memory: against those that do, and against rows on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from operators.columns.fold import CompiledFold
from operators.columns.loop import Field
from operators.columns.stateful_state_machine import CompiledStateMachine as OnColumns
from operators.stateful.fold import StateMachine as OnRows
from operators.stateful.key_value import KeyValue
from routing.columns.keys import KeyColumns
from routing.options import BinOptions
from routing.state.rocks import RocksStore
from routing.state.rocks_budget import MIB
from tests.bench.harness import Bar, Progress, bench

BATCH = 8192
SCHEMA, STATE = pa.schema({"key": pa.int64()}), pa.schema({"total": pa.int64()})


@bench("store-columns")
def store_columns(progress: Progress) -> Iterator[Bar]:
    """Keys drawn at random: after each was there once, what a batch takes, as a rule and at most."""
    for keys in (1_000_000, 4_000_000):
        rates, longest_ms = {}, {}
        for kind, records in (("memory", 4_000_000), ("columns", 1_000_000), ("rows", 200_000)):
            progress(f"{keys:,} keys, {kind}")
            with TemporaryDirectory() as folder:
                rates[kind], longest_ms[kind] = _measured(kind, folder, keys, records)
        yield Bar(
            f"columns / rows, both on RocksDB, records/s, {keys:,} keys",
            rates["columns"] / rates["rows"],
            1.0,
            ">=",
            note=f"{rates['columns']:,.0f} / {rates['rows']:,.0f} records/s, {rates['memory']:,.0f} in memory; "
            f"longest batches {longest_ms['columns']:.0f} / {longest_ms['rows']:.0f} / {longest_ms['memory']:.0f} ms",
        )


def _count(key: Any, n: int, total: int) -> Any:
    total += n
    return total, [(key, total)]


def _measured(kind: str, folder: str, keys: int, records: int) -> tuple[float, float]:
    """Records per second, and the longest that a batch took, in milliseconds."""
    options = BinOptions() if kind == "memory" else BinOptions(store=RocksStore.maker(folder, 64 * MIB))
    logic, apply = _on_rows(options) if kind == "rows" else _on_columns(options)
    for start in range(0, keys, BATCH):
        apply(np.arange(start, min(start + BATCH, keys)))
    dice, took_s = np.random.default_rng(1), []
    for _ in range(0, records, BATCH):
        took_s.append(apply(dice.integers(0, keys, BATCH)))
    logic.bin_state.close()
    return BATCH / float(np.median(took_s)), 1000 * max(took_s)


def _on_columns(options: BinOptions) -> tuple[Any, Callable[[Any], float]]:
    key = KeyColumns.of(SCHEMA, "key", "bench")
    output, state = pa.schema([*SCHEMA, *STATE]), [Field(field.name, field.type) for field in STATE]
    fold = CompiledFold(_count, key=key, values=[], state=state, initial=(0,), output=output)
    logic = OnColumns(fold, key, STATE, options)

    def apply(numbers: Any) -> float:
        batch = pa.RecordBatch.from_arrays([pa.array(numbers)], schema=SCHEMA)
        started_s = time.perf_counter()
        logic.apply(0, 0, batch)
        return time.perf_counter() - started_s

    return logic, apply


def _on_rows(options: BinOptions) -> tuple[Any, Callable[[Any], float]]:
    logic = OnRows(_count, lambda: 0, KeyValue(None, None, "bench"), options, "bench")

    def apply(numbers: Any) -> float:
        rows = [(number, 1) for number in numbers.tolist()]
        started_s = time.perf_counter()
        logic.apply(0, 0, rows)
        return time.perf_counter() - started_s

    return logic, apply
