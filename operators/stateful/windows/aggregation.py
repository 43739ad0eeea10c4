"""What becomes of the records of a window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import add
from typing import Any, Generic, TypeVar

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
    state in place; then `finish` must return something else than that state. A state is a value that the codec encodes.
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
