"""Windows on columns and on rows: the same results and the same late records, in the same epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from framework.dataflow.scope import Scope
from framework.launch.execute import example
from operators import Aggregation, EpochClock, Late, WindowResult, iterator_source
from operators.columns import aggregates as agg

SCHEMA = {"user": str, "item": int, "at": int, "amount": int}
AGGREGATES = {
    "n": agg.count(),
    "amounts": agg.count("amount"),
    "total": agg.sum("amount"),
    "least": agg.min("amount"),
    "most": agg.max("amount"),
}

ROW = st.tuples(
    st.sampled_from(["ann", "a name of more than eight bytes", "", None]),
    st.sampled_from([1, -7, None]),
    st.integers(-40, 60) | st.integers(-(10**12), 10**12),
    st.none() | st.integers(-9, 9),
)
EPOCHS = st.lists(st.lists(ROW, max_size=10), max_size=6)


@dataclass(frozen=True)
class Setting:
    """What windows are like."""

    length: int
    step: int
    offset: int
    lateness: int
    early: Any
    clock: EpochClock

    def arguments(self) -> dict[str, Any]:
        return dict(vars(self))


SETTINGS = st.builds(
    lambda length, step, **others: Setting(length=length, step=min(step, length), **others),
    length=st.integers(1, 30),
    step=st.integers(3, 30),
    offset=st.integers(-50, 50),
    lateness=st.sampled_from([0, 0, 1, 10, 40]),
    early=st.sampled_from([None, "epoch"]),
    clock=st.builds(EpochClock, st.integers(1, 20), st.integers(0, 15), st.integers(-30, 10)),
)


def finish(amounts: list[int | None]) -> tuple[Any, ...]:
    there = [amount for amount in amounts if amount is not None]
    total = sum(there) if there else None
    return len(amounts), len(there), total, min(there, default=None), max(there, default=None)


ROWS: Aggregation[Any, Any, Any] = Aggregation(
    initial=list, fold=lambda amounts, row: [*amounts, row[3]], merge=lambda one, other: one + other, finish=finish
)


def flat_result(result: WindowResult[Any, Any]) -> tuple[Any, ...]:
    key = result.key if isinstance(result.key, tuple) else (result.key,)
    return *key, *result.window, *result.value, result.pane.value


def flat_late(late: Late[Any]) -> list[tuple[Any, ...]]:
    return [(*late.record, *window) for window in late.windows]


def both(scope: Scope, epochs: list[list[Any]], setting: Setting, key: list[str]) -> Any:
    rows = iterator_source(scope, enumerate(epochs))
    places = [list(SCHEMA).index(name) for name in key]

    def key_of(row: Any) -> Any:
        return row[places[0]] if len(places) == 1 else tuple(row[place] for place in places)

    results, late = rows.sliding_window(ROWS, key=key_of, event_time=lambda row: row[2], **setting.arguments())
    columns = rows.to_columns(SCHEMA).sliding_window(AGGREGATES, key=key, event_time="at", **setting.arguments())
    return (
        (results.map(flat_result).extract(), late.flat_map(flat_late).extract()),
        (columns.results.extract(), columns.late.extract()),
    )


def shown(by_time: dict[Any, list[Any]]) -> dict[Any, list[Any]]:
    return {time: sorted(rows, key=repr) for time, rows in by_time.items()}


@given(EPOCHS, SETTINGS, st.sampled_from([["user"], ["item"], ["item", "user"]]))
def test_windows_give_the_same_on_rows_and_on_columns(epochs: list[list[Any]], setting: Setting, key: list[str]):
    on_rows, on_columns = example(lambda scope: both(scope, epochs, setting, key))
    for rows, columns in zip(on_rows, on_columns, strict=True):
        assert shown(columns.by_time()) == shown(rows.by_time())
