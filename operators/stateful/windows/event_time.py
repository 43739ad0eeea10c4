"""Event times and lengths of them are integers, in a unit of the job's choice."""

from __future__ import annotations

from operator import index
from typing import Any

from framework.errors import UserError

UNIT = "an integer, such as milliseconds"


def event_time_of(given: Any, record: object, operator: str) -> int:
    """The event time that a function gave other than as an `int`; raises for what is not an integer.

    >>> event_time_of(True, "tea", "count")
    1
    """
    try:
        return index(given)
    except TypeError:
        raise UserError(
            f"operator {operator!r}: event_time(record) gave {given!r} for {record!r}; an event time is {UNIT}"
        ) from None


def check_whole(where: str, **lengths: Any) -> None:
    """Raise unless lengths of event time are integers."""
    for name, given in lengths.items():
        if not isinstance(given, int):
            raise UserError(f"{where} received {name}={given!r}; it is a length of event time, {UNIT}")
