"""Windows of event time that follow one another, over aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from operators.columns.aggregates import Aggregate
from operators.columns.sliding_window import WindowedColumns
from operators.stateful.windows.clock import Clock
from routing.commands import Control
from routing.options import BinOptions

if TYPE_CHECKING:
    from operators.columns.stream import Columns
    from operators.stream import Stream


def tumbling_window(
    columns: Columns,
    aggregates: Mapping[str, Aggregate],
    *,
    length: int,
    key: str | Sequence[str],
    event_time: str,
    clock: Clock,
    lateness: int = 0,
    early: Literal["epoch"] | None = None,
    offset: int = 0,
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "tumbling_window",
) -> WindowedColumns:
    """Keep aggregates of each key and window; windows cover `length` of event time, one after the other.

    >>> from framework.launch.execute import example
    >>> from operators.columns import aggregates as agg
    >>> from operators.input.iterator_source import iterator_source
    >>> from operators.stateful.windows import EpochClock
    >>> def build(scope):
    ...     sales = iterator_source(scope, [(0, [("tea", 3), ("tea", 9)]), (1, [("tea", 10), ("tea", 7)])])
    ...     results, late = sales.to_columns({"what": str, "at": int}).tumbling_window(
    ...         {"sold": agg.count()}, length=10, key="what", event_time="at", clock=EpochClock(5)
    ...     )
    ...     return results.extract()
    >>> example(build).by_time()
    {1: [('tea', 0, 10, 3, 'closed')], 3: [('tea', 10, 20, 1, 'closed')]}

    Returns two streams. `results` has the columns of the key, `start` and `end` of the window, the aggregates, and
    `pane`, which is `early`, `closed` or `corrected`. `late` has the records that came too late, with `start` and `end`
    of the window that they missed. The windows are those of `tumbling_window` on rows: what they have in them, when
    they close, and what `lateness`, `early` and `offset` mean.

    `aggregates` are those of `stateful_aggregate`. `event_time` names a column of integers, dates or timestamps, which
    has no nulls. `length`, `lateness`, `offset` and the clock are in its unit, for instance microseconds or days;
    `start` and `end` are of its type. `control` and `bins` are those of `stateful_state_machine`; open windows are kept
    in memory.
    """
    return columns.sliding_window(
        aggregates,
        length=length,
        step=length,
        key=key,
        event_time=event_time,
        clock=clock,
        lateness=lateness,
        early=early,
        offset=offset,
        control=control,
        bins=bins,
        name=name,
    )
