"""What can be kept of the values of a key without writing a fold: for `stateful_aggregate` and windows.

    sales.stateful_aggregate({"sold": count(), "revenue": sum("cents"), "dearest": max("cents")}, key="product")

Nulls are left out, as in SQL: an aggregate over values is null until there was one, and a count of them is 0.

Sums of integers have 64 bits, and raise rather than overflow. NaN counts for `min` and `max` only if there is nothing
else. `variance` is that of a sample, and NaN for a single value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

Typed = Callable[[pa.DataType], pa.DataType]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """How values become one: source in which `v` is a value, `n` how many there were, and `a`, `b`, … the state.

    Without a column there is no `v`, and `n` is how many records there were.
    """

    column: str | None
    state: Sequence[Typed]
    """The type of each part of the state, from that of the column. All of it is 0 at first."""
    update: Sequence[str]
    """Run for each value that is not null, after it was counted."""
    result: str
    type: Typed
    of: Literal["numbers", "nothing"] = "numbers"
    """What `v` is: the value, which must be a number, or nothing, for a column of whatever type."""
    is_count: bool = False
    """Whether the result stands also if there was no value; else it is null then."""


def _itself(kind: pa.DataType) -> pa.DataType:
    return kind


def _float(kind: pa.DataType) -> pa.DataType:
    return pa.float64()


def _whole(kind: pa.DataType) -> pa.DataType:
    return pa.int64()


def _widest(kind: pa.DataType) -> pa.DataType:
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()


def count(column: str | None = None) -> Aggregate:
    """How many records there were; or, of a column of any type, how many values that are not null."""
    return Aggregate(column, (), (), "n", _whole, of="nothing", is_count=True)


def sum(column: str) -> Aggregate:
    """The sum of a column."""
    return Aggregate(column, (_widest,), ("a = added(a, v)",), "a", _widest)


def min(column: str) -> Aggregate:
    """The least value of a column."""
    return Aggregate(column, (_itself,), ("if n == 1 or v < a or a != a:", "    a = v"), "a", _itself)


def max(column: str) -> Aggregate:
    """The greatest value of a column."""
    return Aggregate(column, (_itself,), ("if n == 1 or v > a or a != a:", "    a = v"), "a", _itself)


def mean(column: str) -> Aggregate:
    """The mean of a column."""
    return Aggregate(column, (_float,), ("a += v",), "a / n if n > 0 else 0.0", _float)


def variance(column: str) -> Aggregate:
    """The variance of a column."""
    update = ("delta = v - a", "a += delta / n", "b += delta * (v - a)")
    return Aggregate(column, (_float, _float), update, "b / (n - 1) if n > 1 else np.nan", _float)


def first(column: str) -> Aggregate:
    """The first value of a column, in the order of times."""
    return Aggregate(column, (_itself,), ("if n == 1:", "    a = v"), "a", _itself)


def last(column: str) -> Aggregate:
    """The last value of a column, in the order of times."""
    return Aggregate(column, (_itself,), ("a = v",), "a", _itself)
