"""Pairs of records of two streams that have the same key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from framework.errors import UserError
from operators.stateful.fold import DISCARD
from operators.stateful.process import Timers, process
from operators.stateful.windows.clock import Clock
from operators.stateful.windows.event_time import check_whole, event_time_of
from routing.commands import Control
from routing.options import BinOptions

if TYPE_CHECKING:
    from operators.stream import Stream

K = TypeVar("K")
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class WithinEventTime:
    """Records match if their event times are at most `interval` apart.

    A record is kept until the watermark of `clock` says that no more matches come, at least to the end of its epoch.
    """

    interval: int
    event_time: Callable[[Any], int]
    other_event_time: Callable[[Any], int]
    clock: Clock


@overload
def stateful_join(
    stream: Stream[T],
    other: Stream[U],
    *,
    key: Callable[[T], K],
    other_key: Callable[[U], K],
    kind: Literal["inner"] = ...,
    within: int | WithinEventTime | None = ...,
    control: Stream[Control] | None = ...,
    bins: int | BinOptions = ...,
    name: str = ...,
) -> Stream[tuple[T, U]]: ...


@overload
def stateful_join(
    stream: Stream[T],
    other: Stream[U],
    *,
    key: Callable[[T], K],
    other_key: Callable[[U], K],
    kind: Literal["left"],
    within: int | WithinEventTime,
    control: Stream[Control] | None = ...,
    bins: int | BinOptions = ...,
    name: str = ...,
) -> Stream[tuple[T, U | None]]: ...


def stateful_join(
    stream: Stream[T],
    other: Stream[U],
    *,
    key: Callable[[T], K],
    other_key: Callable[[U], K],
    kind: Literal["inner", "left"] = "inner",
    within: int | WithinEventTime | None = None,
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "stateful_join",
) -> Stream[Any]:
    """Pair each record with each of `other` that matches and has an equal key; a pair comes once, with its later half.

    >>> from framework.launch.execute import example
    >>> from operators.input.iterator_source import iterator_source
    >>> def build(scope):
    ...     orders = iterator_source(scope, [(0, ["tea", "milk"])])
    ...     payments = iterator_source(scope, [(1, ["TEA"]), (2, ["MILK"])])
    ...     return orders.stateful_join(payments, key=str, other_key=str.lower, kind="left", within=1).extract()
    >>> example(build).by_time()
    {1: [('tea', 'TEA'), ('milk', None)]}

    `within` says which records match and how long they are kept. A number: records whose epochs are at most that far
    apart; 0 pairs records of one epoch. A `WithinEventTime`: records whose event times are within its interval.
    `None`: all, and every record is kept for ever.

    A pair `(record, other_record)` comes at the later epoch of its two, as soon as both are there. A left join also
    gives `(record, None)` for each record of this stream without a match, at the end of the epoch in which it is
    forgotten; a match can then no longer come, so a record is either in pairs or with `None`, never both. For this a
    left join needs a `within`. A record that arrives later than its clock promised matches what is still kept.

    `control` and `bins` are those of `stateful_state_machine`.
    """
    if kind not in ("inner", "left"):
        raise UserError(f"operator {name!r} received kind={kind!r}; it is 'inner' or 'left'")
    if kind == "left" and within is None:
        raise UserError(
            f"operator {name!r} is a left join without `within`, which could never tell that a record has no match; "
            f"say how many epochs, or with `WithinEventTime` how much event time, a match may be away"
        )
    if isinstance(within, WithinEventTime):
        check_whole(f"operator {name!r}", interval=within.interval)
    elif not isinstance(within, int | None):
        raise UserError(f"operator {name!r} received within={within!r}; it is a number of epochs, or a WithinEventTime")
    interval = within.interval if isinstance(within, WithinEventTime) else within
    if interval is not None and interval < 0:
        raise UserError(f"operator {name!r} received within={within!r}; records are at least 0 apart")
    logic = _Join(within, left=kind == "left", name=name)
    return process([(stream, key), (other, other_key)], logic, control=control, bins=bins, name=name)


_POSITION, _RECORD, _MATCHED = 0, 1, 2
_FOR_EVER = -1


class _Join:
    """A `Process`. The state of a key is, per side, the records to forget at the end of each epoch, or never."""

    def __init__(self, within: int | WithinEventTime | None, *, left: bool, name: str) -> None:
        self._left = left
        self._name = name
        self._clock: Clock | None = None
        match within:
            case WithinEventTime():
                self._interval: int | None = within.interval
                self._clock = within.clock
                self._event_times = [within.event_time, within.other_event_time]
            case _:
                self._interval = within

    def initial(self) -> Any:
        return {}, {}

    def on_record(self, port: int, record: Any, state: Any, timers: Timers) -> tuple[Any, list[Any]]:
        position, until = self._placed(port, record, timers.time)
        matches = self._matches(state[1 - port], position)
        for match in matches:
            match[_MATCHED] = True
        if until != _FOR_EVER and until not in state[0] and until not in state[1]:
            timers.set(until)
        state[port].setdefault(until, []).append([position, record, bool(matches)])
        if port:
            return state, [(match[_RECORD], record) for match in matches]
        return state, [(record, match[_RECORD]) for match in matches]

    def on_timer(self, key: Any, state: Any, timers: Timers) -> tuple[Any, list[Any]]:
        mine, others = state
        forgotten = mine.pop(timers.time, ())
        others.pop(timers.time, None)
        unmatched = [(item[_RECORD], None) for item in forgotten if not item[_MATCHED]] if self._left else []
        return state if mine or others else DISCARD, unmatched

    def _placed(self, port: int, record: Any, time: int) -> tuple[int, int]:
        """Where a record is, on the axis along which distances count, and at the end of which epoch it is forgotten."""
        if self._interval is None:
            return time, _FOR_EVER
        if self._clock is None:
            return time, time + self._interval
        position = self._event_times[port](record)
        if type(position) is not int:
            position = event_time_of(position, record, self._name)
        return position, max(time, self._clock.reached(position + self._interval + 1))

    def _matches(self, kept: dict[int, list[Any]], position: int) -> list[Any]:
        interval = self._interval
        if interval is None:
            return [item for items in kept.values() for item in items]
        return [item for items in kept.values() for item in items if abs(item[_POSITION] - position) <= interval]
