"""Windows of event time that last as long as a key's events keep coming."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from operators.stateful.windows.aggregation import Aggregation
from operators.stateful.windows.clock import Clock
from operators.stateful.windows.place import place_windows
from operators.stateful.windows.result import Windowed
from operators.stateful.windows.sessions import Sessions
from routing.commands import Control
from routing.options import BinOptions

if TYPE_CHECKING:
    from operators.stream import Stream

K = TypeVar("K")
T = TypeVar("T")
R = TypeVar("R")


def session_window(
    stream: Stream[T],
    aggregation: Aggregation[T, Any, R],
    *,
    gap: int,
    key: Callable[[T], K],
    event_time: Callable[[T], int],
    clock: Clock,
    lateness: int = 0,
    early: Literal["epoch"] | None = None,
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "session_window",
) -> Windowed[K, T, R]:
    """Put the records of each key and session together; a session ends when there was no event for `gap`.

    >>> from framework.launch.execute import example
    >>> from operators.input.iterator_source import iterator_source
    >>> from operators.stateful.windows import EpochClock, counting
    >>> def build(scope):
    ...     clicks = iterator_source(scope, [(0, [("ann", 1), ("ann", 8)]), (1, [("ann", 14), ("ann", 19)])])
    ...     results, late = clicks.session_window(
    ...         counting(),
    ...         gap=5,
    ...         key=lambda click: click[0],
    ...         event_time=lambda click: click[1],
    ...         clock=EpochClock(10),
    ...     )
    ...     return results.map(lambda result: (*result.window, result.value)).extract()
    >>> example(build).by_time()
    {0: [(1, 6, 1)], 1: [(8, 13, 1), (14, 19, 1)], 2: [(19, 24, 1)]}

    Events less than `gap` apart are in one session; its window is from the first to `gap` after the last. Events that
    arrive out of order extend sessions to either side, and join two into one by `aggregation.merge`.

    A session closes at the end of the first epoch in which the watermark reaches its end. A record is late if the
    watermark was past its event time by more than `lateness` when its epoch began. With `lateness=0` each session gives
    one result. Otherwise late records may change closed sessions: the result of a session replaces the earlier results
    of its key whose windows lie within its own. It is given at the end of the epoch, or, if the session is open again,
    when that closes. All else is as in `tumbling_window`.
    """
    logic = Sessions(
        aggregation,
        gap=gap,
        event_time=event_time,
        clock=clock,
        lateness=lateness,
        early=early,
        name=name,
    )
    return place_windows(stream, logic, key=key, control=control, bins=bins, name=name)
