"""What becomes of the records of a window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import add, itemgetter
from typing import Any, Generic, TypeVar, overload

from operators.stateful.returned import snapshot

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")


def _itself(state: Any) -> Any:
    return state


@dataclass(frozen=True)  # without slots, which in Python 3.11 do not go with `Aggregation[...](...)`
class Aggregation(Generic[T, S, R]):
    """How records become one value.

    >>> mean = Aggregation(
    ...     initial=lambda: (0, 0),
    ...     fold=lambda state, n: (state[0] + n, state[1] + 1),
    ...     merge=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    ...     finish=lambda state: state[0] / state[1],
    ... )

    `initial()` makes the state of a new window, `fold(state, record)` gives the state with one record more,
    `merge(a, b)` that of two windows which have become one, and `finish(state)` the value of a result. Records of one
    epoch come in any order, so neither the order of folds nor how they were merged may matter. A `fold` may change its
    state in place, and return it: where the window stays, its result is a copy. The codec has to encode a state.
    """

    initial: Callable[[], S]
    fold: Callable[[S, T], S]
    merge: Callable[[S, S], S]
    finish: Callable[[S], R] = _itself


def reducing(function: Callable[[R, R], R], *, of: Callable[[T], R]) -> Aggregation[T, R | None, R]:
    """Puts the values `of(record)` together two by two: `reducing(max, of=price)`."""

    def both(a: R | None, b: R | None) -> R | None:
        return b if a is None else a if b is None else function(a, b)

    return Aggregation(initial=lambda: None, fold=lambda state, record: both(state, of(record)), merge=both)


def counting() -> Aggregation[Any, int | None, int]:
    """Counts records."""
    return reducing(add, of=lambda _: 1)


@overload
def collecting(*, order: Callable[[T], Any] | None = None) -> Aggregation[T, list[Any], list[T]]: ...


@overload
def collecting(
    *, of: Callable[[T], R], order: Callable[[T], Any] | None = None
) -> Aggregation[T, list[Any], list[R]]: ...


def collecting(
    *, of: Callable[[Any], Any] = _itself, order: Callable[[Any], Any] | None = None
) -> Aggregation[Any, list[Any], list[Any]]:
    """Collects the values `of(record)`, or the records, in a list: `collecting(of=price, order=event_time)`.

    >>> prices = collecting(of=lambda sale: sale[0], order=lambda sale: sale[1])
    >>> prices.finish(prices.fold(prices.fold([], (5, "b")), (7, "a")))
    [7, 5]

    They are in the order of `order(record)`. Without one they are in any, which may change from run to run; so are
    those for which it gives the same.
    """

    def fold(state: list[Any], record: Any) -> list[Any]:
        state.append((None if order is None else order(record), of(record)))
        return state

    def finish(state: list[Any]) -> list[Any]:
        return [value for _, value in (state if order is None else sorted(state, key=itemgetter(0)))]

    return Aggregation(initial=list, fold=fold, merge=add, finish=finish)


def result_of(aggregation: Aggregation[Any, Any, R], state: Any, *, stays: bool) -> R:
    """The value of a window, which does not change with a state that stays."""
    value = aggregation.finish(state)
    return snapshot(value) if stays else value
