"""Windows of event time that follow one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from operators.stateful.windows.aggregation import Aggregation
from operators.stateful.windows.clock import Clock
from operators.stateful.windows.result import Windowed
from routing.commands import Control
from routing.options import BinOptions

if TYPE_CHECKING:
    from operators.stream import Stream

K = TypeVar("K")
T = TypeVar("T")
R = TypeVar("R")


def tumbling_window(
    stream: Stream[T],
    aggregation: Aggregation[T, Any, R],
    *,
    length: int,
    key: Callable[[T], K],
    event_time: Callable[[T], int],
    clock: Clock,
    lateness: int = 0,
    early: Literal["epoch"] | None = None,
    offset: int = 0,
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "tumbling_window",
) -> Windowed[K, T, R]:
    """Put the records of each key and window together; windows cover `length` of event time, one after the other.

    >>> from framework.launch.execute import example
    >>> from operators.input.iterator_source import iterator_source
    >>> from operators.stateful.windows import EpochClock, counting
    >>> def build(scope):
    ...     sales = iterator_source(scope, [(0, [("tea", 3), ("tea", 9)]), (1, [("tea", 10), ("tea", 7)])])
    ...     results, late = sales.tumbling_window(
    ...         counting(),
    ...         length=10,
    ...         key=lambda sale: sale[0],
    ...         event_time=lambda sale: sale[1],
    ...         clock=EpochClock(5),
    ...     )
    ...     return results.map(lambda result: (result.key, *result.window, result.value)).extract()
    >>> example(build).by_time()
    {1: [('tea', 0, 10, 3)], 3: [('tea', 10, 20, 1)]}

    Returns two streams, `results` of `WindowResult` and `late` of `Late`. A window from `start` to just before
    `start + length` has an event at `start` and none at its end; starts are `offset` and whole lengths from there. It
    exists for a key that has a record in it.

    `event_time(record)` says when the record's event happened. `clock` says how far event time has come: a window
    closes at the end of the first epoch in which the watermark reaches its end, and gives its result then, with
    `pane` `CLOSED`.

    `lateness` is how much further the watermark goes before a closed window is forgotten. Until then each epoch that
    brings it records gives, at its end, a result that replaces the one before, with `pane` `CORRECTED`. A record that
    comes after that goes to `late`, with the windows that it missed. With `early="epoch"` an open window also gives a
    result at the end of each epoch that brings it records, with `pane` `EARLY`.

    The results of an epoch depend neither on the order of its records, if `aggregation` does not, nor on the number of
    workers or where bins are. `control` and `bins` are those of `stateful_state_machine`.
    """
    return stream.sliding_window(
        aggregation,
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
