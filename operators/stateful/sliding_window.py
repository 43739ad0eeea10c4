"""Windows of event time that overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from operators.stateful.windows.aggregation import Aggregation
from operators.stateful.windows.aligned import AlignedWindows
from operators.stateful.windows.clock import Clock
from operators.stateful.windows.place import place_windows
from operators.stateful.windows.result import Windowed
from routing.commands import Control
from routing.options import BinOptions

if TYPE_CHECKING:
    from operators.stream import Stream

K = TypeVar("K")
T = TypeVar("T")
R = TypeVar("R")


def sliding_window(
    stream: Stream[T],
    aggregation: Aggregation[T, Any, R],
    *,
    length: int,
    step: int,
    key: Callable[[T], K],
    event_time: Callable[[T], int],
    clock: Clock,
    lateness: int = 0,
    early: Literal["epoch"] | None = None,
    offset: int = 0,
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "sliding_window",
) -> Windowed[K, T, R]:
    """Put the records of each key and window together; windows cover `length` of event time and start every `step`.

    >>> from framework.launch.execute import example
    >>> from operators.input.iterator_source import iterator_source
    >>> from operators.stateful.windows import EpochClock, counting
    >>> def build(scope):
    ...     sales = iterator_source(scope, [(0, [("tea", 3), ("tea", 9)]), (1, [("tea", 10)])])
    ...     results, late = sales.sliding_window(
    ...         counting(),
    ...         length=10,
    ...         step=5,
    ...         key=lambda sale: sale[0],
    ...         event_time=lambda sale: sale[1],
    ...         clock=EpochClock(5),
    ...     )
    ...     return results.map(lambda result: (*result.window, result.value)).extract()
    >>> example(build).by_time()
    {0: [(-5, 5, 1)], 1: [(0, 10, 2)], 2: [(5, 15, 2)], 3: [(10, 20, 1)]}

    An event is in every window that starts at or before it and ends after it; starts are `offset` and whole steps from
    there. A window without a record gives no result. The step is at most the length, which need not be a multiple of
    it. A record can be too late for some of its windows and not for others: it then counts in those, and goes to `late`
    with the windows that it missed. All else is as in `tumbling_window`.
    """
    logic = AlignedWindows(
        aggregation,
        length=length,
        step=step,
        offset=offset,
        event_time=event_time,
        clock=clock,
        lateness=lateness,
        early=early,
        name=name,
    )
    return place_windows(stream, logic, key=key, control=control, bins=bins, name=name)
