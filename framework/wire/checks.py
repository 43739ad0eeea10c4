"""Numbers, times and changes that come from outside: what they must be, or `ProtocolError`."""

from __future__ import annotations

from typing import Any

from framework.errors import ProtocolError
from framework.progress.order import EPOCH_MAX, Product, Time

TIME_DEPTH_MAX = 16
"""How deep the scopes of a time nest."""


def natural(value: Any) -> int:
    """A number of something, or the number of one."""
    if type(value) is int and 0 <= value <= EPOCH_MAX:
        return value
    raise ProtocolError(f"{_show(value)} where an integer from 0 to 2**63 - 1 was expected")


def change(value: Any) -> tuple[int, Time, int]:
    """How many pointstamps more there are at a location and a time."""
    match value:
        case [location, at, delta] if type(delta) is int and -EPOCH_MAX <= delta <= EPOCH_MAX:
            return natural(location), time(at), delta
    raise ProtocolError(f"{_show(value)} where a location, a time and a difference were expected")


def time(value: Any, depth: int = 0) -> Time:
    """A time: an integer, or nested pairs."""
    match value:
        case int():
            return natural(value)
        case [outer, inner] if depth < TIME_DEPTH_MAX:
            return Product(time(outer, depth + 1), natural(inner))
    raise ProtocolError(f"{_show(value)} where a time was expected")


def _show(value: Any) -> str:
    # Not `repr` of just anything: it fails on very deep lists and very large integers.
    return repr(value) if type(value) is int and value.bit_length() <= 64 else f"a {type(value).__name__}"
