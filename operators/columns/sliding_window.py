"""Windows of event time that overlap, over aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import pyarrow as pa

from framework.dataflow.pact import Pipeline
from framework.dataflow.scope import Outlet
from framework.errors import GraphError
from operators.columns.aggregates import Aggregate
from operators.stateful.placement import placement_in
from operators.stateful.windows.aligned import check_lengths, check_options
from operators.stateful.windows.clock import Clock
from operators.stateful.windows.late_count import LateCount, list_count
from routing.bins import Bins
from routing.commands import Control
from routing.options import BinOptions
from routing.state.memory import MemoryStore

if TYPE_CHECKING:
    from operators.columns.stream import Columns
    from operators.stream import Stream


class WindowedColumns(NamedTuple):
    """The two streams that come out of windows over aggregates."""

    results: Columns
    """The columns of the key, `start` and `end` of the window, the aggregates, and which `pane` it is."""
    late: Columns
    """The columns of a record, `start` and `end` of a window that it came too late for."""


def sliding_window(
    columns: Columns,
    aggregates: Mapping[str, Aggregate],
    *,
    length: int,
    step: int,
    key: str | Sequence[str],
    event_time: str,
    clock: Clock,
    lateness: int = 0,
    early: Literal["epoch"] | None = None,
    offset: int = 0,
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "sliding_window",
) -> WindowedColumns:
    """Keep aggregates of each key and window; windows cover `length` of event time and start every `step`.

    >>> from framework.launch.execute import example
    >>> from operators.columns import aggregates as agg
    >>> from operators.input.iterator_source import iterator_source
    >>> from operators.stateful.windows import EpochClock
    >>> def build(scope):
    ...     sales = iterator_source(scope, [(0, [("tea", 3), ("tea", 9)]), (1, [("tea", 10)])])
    ...     results, late = sales.to_columns({"what": str, "at": int}).sliding_window(
    ...         {"sold": agg.count()}, length=10, step=5, key="what", event_time="at", clock=EpochClock(5)
    ...     )
    ...     return results.extract()
    >>> for epoch, rows in example(build).by_time().items():
    ...     print(epoch, rows)
    0 [('tea', -5, 5, 1, 'closed')]
    1 [('tea', 0, 10, 2, 'closed')]
    2 [('tea', 5, 15, 2, 'closed')]
    3 [('tea', 10, 20, 1, 'closed')]

    The windows are those of `sliding_window` on rows, and give their results in the same epochs; a record that missed
    several windows is in `late` once for each. All else is as in `tumbling_window`.
    """
    from operators.columns.aggregating import CompiledAggregates
    from operators.columns.combining import Combined
    from operators.columns.window_slices import WindowSlices
    from operators.columns.windowing import END, PANE, START, EventTime, Timing, Windowing
    from routing.columns.keys import KeyColumns, check_columns
    from routing.columns.pact import ColumnKey

    where, options = f"operator {name!r}", BinOptions.of(bins)
    check_lengths(length=length, step=step, offset=offset, name=name)
    check_options(lateness=lateness, early=early, name=name)
    if options.store is not MemoryStore:
        raise GraphError(
            f"{where} keeps its windows in memory, and cannot use another store; leave `store` out of its BinOptions, "
            f"or use rows: .to_rows(), then the windows of rows"
        )
    keys = KeyColumns.of(columns.schema, key, where)
    check_columns(columns.schema, [event_time], where)
    time = EventTime.of(columns.schema.field(event_time), where)
    combined = Combined.of(columns.schema, aggregates, where, per_record=False)
    borders = [pa.field(START, time.type), pa.field(END, time.type)]
    results = pa.schema([*keys.schema, *borders, *combined.results, pa.field(PANE, pa.string())])
    late = pa.schema([*columns.schema, *borders])
    _check_names(results, late, where)
    compiled = CompiledAggregates(combined, keys, log=lambda text: columns.scope.worker.log(f"{where}: {text}"))
    timing = Timing(WindowSlices(length, step, offset), clock, lateness, early is not None)
    placement = placement_in(columns.scope, control=control, options=options, name=name)
    count = LateCount(columns.scope.worker, name)
    logic = Windowing(compiled, keys, time, timing, (columns.schema, results, late), Bins(options.bins), count)
    outlet = placement.place([(columns.outlet, ColumnKey(keys))], logic, name)
    list_count(outlet, count)
    return _split_late(outlet, results, late, name)


def _check_names(results: pa.Schema, late: pa.Schema, where: str) -> None:
    for schema, what in ((results, "results"), (late, "late records")):
        for name in schema.names:
            if schema.names.count(name) > 1:
                raise GraphError(
                    f"{where} would have two columns {name!r} in its {what}: {', '.join(schema.names)}; give the one "
                    f"of yours another name (`rename_columns` in a `map`)"
                )


def _split_late(outlet: Outlet, results: pa.Schema, late: pa.Schema, name: str) -> WindowedColumns:
    """Split results from late records: their schemas differ, since only results end with a pane."""
    from operators.columns.stream import Columns

    builder = outlet.scope.operator(f"{name}: late")
    input = builder.input(outlet, Pipeline())
    (of_results, results_outlet), (of_late, late_outlet) = builder.output(), builder.output()

    def logic() -> None:
        for capability, batch in input:
            output = of_results if batch.schema.equals(results) else of_late
            output.session(capability).give_container(batch)

    builder.build(lambda _: logic, notify=False)
    return WindowedColumns(Columns(results_outlet, results), Columns(late_outlet, late))
