"""Times as JSON has them: an epoch is a number, a time of a nested scope a pair."""

from __future__ import annotations

from typing import Any

from framework.progress.order import Product, Time


def to_json(time: Time) -> Any:
    """A time as JSON.

    >>> to_json(Product(Product(4, 1), 2))
    [[4, 1], 2]
    """
    return time if isinstance(time, int) else [to_json(time.outer), time.inner]


def from_json(value: Any) -> Time:
    """The time that `to_json` made into `value`.

    >>> from_json([[4, 1], 2])
    ((4, 1), 2)
    """
    return value if isinstance(value, int) else Product(from_json(value[0]), value[1])


def show(frontier: list[Any]) -> str:
    """A frontier from JSON as text: the least times that may still come.

    >>> show([41]), show([[0, 5], [1, 0]]), show([])
    ('41', '(0, 5) (1, 0)', 'done')
    """
    return " ".join(repr(from_json(time)) for time in frontier) or "done"
