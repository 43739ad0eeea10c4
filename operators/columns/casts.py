"""Conversions in compiled code: of what a fold returns to the types its columns declare, refused where a value would
change, and sums of integers that are checked for overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.extending import overload


def as_int64(value: Any) -> Any:
    """An integer, or a truth value."""
    raise AssertionError(value)


def as_float64(value: Any) -> Any:
    """A number."""
    raise AssertionError(value)


def as_bool(value: Any) -> Any:
    """A truth value."""
    raise AssertionError(value)


@overload(as_int64)
def _as_int64(value):
    if isinstance(value, types.Boolean) or (
        isinstance(value, types.Integer) and value.signed  # type: ignore[attr-defined]  # its stub lacks it
    ):
        return lambda value: np.int64(value)
    raise TypingError(f"a column declared as an integer is given {_name_of(value)}")


@overload(as_float64)
def _as_float64(value):
    if isinstance(value, types.Float | types.Integer | types.Boolean):
        return lambda value: np.float64(value)
    raise TypingError(f"a column declared as a float is given {_name_of(value)}")


@overload(as_bool)
def _as_bool(value):
    if isinstance(value, types.Boolean):
        return lambda value: value
    raise TypingError(f"a column declared as a truth value is given {_name_of(value)}")


def _name_of(value: Any) -> str:
    if isinstance(value, types.Float):
        return "a float"
    if isinstance(value, types.Integer):
        return "an integer"
    if isinstance(value, types.NoneType):
        return "None, or part of a key that is not a number"
    return f"a {value}"


def added(a: Any, b: Any) -> Any:
    """The sum, which for integers must fit 64 bits."""
    raise AssertionError((a, b))


@overload(added)
def _added(a, b):
    if isinstance(a, types.Float) or isinstance(b, types.Float):
        return lambda a, b: a + b

    def add_integers(a, b):
        total = np.int64(a) + np.int64(b)
        if ((a ^ total) & (np.int64(b) ^ total)) < 0:
            raise OverflowError("a sum of integers exceeds 64 bits; cast the column to float64 in a `map` before")
        return total

    return add_integers
