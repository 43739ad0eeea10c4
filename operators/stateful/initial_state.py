"""The state that a key, a time or a stream starts with.

Operators that fold take `initial`: a value that cannot change, such as `0`, `""` or `None`, or a class or function that
makes a fresh one each time, such as `list`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from operators.errors import SharedInitial

S = TypeVar("S")


def initial_factory(initial: S | Callable[[], S], operator: str) -> Callable[[], S]:
    """A function that gives the state to start with.

    >>> initial_factory(0, "count")(), initial_factory(list, "gather")()
    (0, [])
    """
    if callable(initial):
        return initial
    refuse_shared(initial, operator)
    return lambda: initial


def refuse_shared(initial: Any, operator: str) -> None:
    """Raise if `initial` is a mutable object, which all that start with it would share."""
    if not _is_value(initial):
        kind = type(initial).__name__
        filled = isinstance(initial, list | dict | set | bytearray | tuple) and initial
        maker = f"lambda: {initial!r}" if filled else kind
        raise SharedInitial(
            f"operator {operator!r} received initial={initial!r}, one {kind} that everything would start with and "
            f"change together; pass a class or a function that makes a new one, such as initial={maker}"
        )


def _is_value(initial: Any) -> bool:
    """Whether it stays what it is: what can change has no hash, or, as an object of a plain class, that of any object.

    >>> _is_value((0, "tea")), _is_value(([], 0)), _is_value(object())
    (True, False, False)
    """
    if isinstance(initial, tuple):
        return all(map(_is_value, initial))
    by: Any = type(initial).__hash__
    try:
        hash(initial)  # that of a frozen dataclass is its fields'
    except TypeError:
        return False
    return initial is None or by is not object.__hash__
