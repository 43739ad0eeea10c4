"""All NaN are one key, although none equals itself: where keys are looked up, one object stands for them.

Python compares by identity first, so a dictionary finds `NAN`, and a tuple that holds it. Stores and folds look a key
up as it is, and by `one_nan` only if it is not there: the usual key costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from math import nan
from typing import Any

from routing.hashing import from_numpy

NAN = nan

WITHOUT_NAN = frozenset((str, int, bool, bytes, type(None), date, datetime))
"""Types that have no NaN."""


def may_hold_nan(keys: Collection[Any]) -> bool:
    """Whether any of these keys is of a type that has NaN. Hot path: all in C."""
    kinds = set(map(type, keys))
    if tuple in kinds and len(kinds) == 1:
        return not WITHOUT_NAN.issuperset(map(type, chain.from_iterable(keys)))
    return not kinds <= WITHOUT_NAN


def one_nan(key: Any) -> Any:
    """A key with `NAN` for each NaN in it; the same object if there is none. Hot path: per new key.

    >>> one_nan(("tea", float("nan"))) == one_nan(("tea", float("nan")))
    True
    """
    if type(key) in WITHOUT_NAN:
        return key
    if isinstance(key, tuple):
        if WITHOUT_NAN.issuperset(map(type, key)):
            return key
        items = [one_nan(item) for item in key]
        if all(item is before for item, before in zip(items, key, strict=True)):
            return key
        return tuple.__new__(type(key), items)
    if isinstance(key, float):
        return NAN if key != key else key
    if isinstance(key, Decimal):
        return NAN if key.is_nan() else key
    number = from_numpy(key)
    return NAN if number is not None and number != number else key
