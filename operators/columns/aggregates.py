"""Aggregates, which need no fold: for `stateful_aggregate` and windows.

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

from framework.errors import UserError

Typed = Callable[[pa.DataType], pa.DataType]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate as source, in which `v` is a value, `n` the number of values so far, and `a`, `b`, … the state.

    Without a column there is no `v`, and `n` is the number of records. When a state is merged, `n2`, `a2`, `b2`, … are
    those of later values.
    """

    column: str | None
    state: Sequence[Typed]
    """The type of each part of the state, from that of the column. All of it is 0 at first.

    A part of fixed-size bytes, in whole words, is updated in place: its name stands for its address.
    """
    update: Sequence[str]
    """Run for each value that is not null, after it was counted."""
    merge: Sequence[str]
    """Run for each partial state, after its values were counted: `n == n2` if there was none before."""
    result: str
    type: Typed
    of: Literal["numbers", "hashes", "nothing"] = "numbers"
    """What `v` is: the value, which must be a number; its hash as a key; or nothing, for a column of whatever type."""
    is_count: bool = False
    """Whether the result without values is that of `result`, not null."""


def _same(kind: pa.DataType) -> pa.DataType:
    return kind


def _float(kind: pa.DataType) -> pa.DataType:
    return pa.float64()


def _int(kind: pa.DataType) -> pa.DataType:
    return pa.int64()


def _widest(kind: pa.DataType) -> pa.DataType:
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()


def count(column: str | None = None) -> Aggregate:
    """How many records there were; or, of a column of any type, how many values that are not null."""
    return Aggregate(column, (), (), (), "n", _int, of="nothing", is_count=True)


def sum(column: str) -> Aggregate:
    """The sum of a column."""
    return Aggregate(column, (_widest,), ("a = added(a, v)",), ("a = added(a, a2)",), "a", _widest)


def min(column: str) -> Aggregate:
    """The least value of a column."""
    update, merge = ("if n == 1 or v < a or a != a:", "    a = v"), ("if n == n2 or a2 < a or a != a:", "    a = a2")
    return Aggregate(column, (_same,), update, merge, "a", _same)


def max(column: str) -> Aggregate:
    """The greatest value of a column."""
    update, merge = ("if n == 1 or v > a or a != a:", "    a = v"), ("if n == n2 or a2 > a or a != a:", "    a = a2")
    return Aggregate(column, (_same,), update, merge, "a", _same)


def mean(column: str) -> Aggregate:
    """The mean of a column."""
    return Aggregate(column, (_float,), ("a += v",), ("a += a2",), "a / n if n > 0 else 0.0", _float)


def variance(column: str) -> Aggregate:
    """The variance of a column."""
    update = ("delta = v - a", "a += delta / n", "b += delta * (v - a)")
    # Chan et al. (1979). What comes first is taken as it is: the square of a large mean, times 0, would be NaN.
    merge = (
        "if n == n2:",
        "    a, b = a2, b2",
        "else:",
        "    delta = a2 - a",
        "    a += delta * (n2 / n)",
        "    b += b2 + delta * (delta * (n2 * ((n - n2) / n)))",
    )
    return Aggregate(column, (_float, _float), update, merge, "b / (n - 1) if n > 1 else np.nan", _float)


def first(column: str) -> Aggregate:
    """The first value of a column, in the order of times."""
    return Aggregate(column, (_same,), ("if n == 1:", "    a = v"), ("if n == n2:", "    a = a2"), "a", _same)


def last(column: str) -> Aggregate:
    """The last value of a column, in the order of times."""
    return Aggregate(column, (_same,), ("a = v",), ("a = a2",), "a", _same)


def approx_distinct(column: str, error: float = 0.05) -> Aggregate:
    """About how many different values a column, of any type that a key can have, has.

    `error` is the standard error, relative to the number: two of three times it is off by less. Small numbers are
    nearly exact. The state of a key takes from `1 / error**2` bytes on: it is a HyperLogLog sketch.
    """
    from routing.columns.hyperloglog import BITS_MAX, bits_for

    if not 0 < error < 1 or bits_for(error) > BITS_MAX:
        raise UserError(f"approx_distinct({column!r}) received error={error!r}; it is from 0.005 to less than 1")
    bits = bits_for(error)
    registers = pa.binary(2**bits)
    return Aggregate(
        column,
        (_int, _int, lambda _: registers),
        (f"a, b = hll_add(c, v, {bits}, a, b)",),
        (f"a, b = hll_merge(c, c2, {bits}, a, b)",),
        f"hll_estimate({bits}, a, b)",
        _int,
        of="hashes",
        is_count=True,
    )
