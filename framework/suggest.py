"""What somebody may have meant who wrote an unknown word."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def hint(given: str, known: Iterable[str]) -> str:
    """`; did you mean …?`, if one of the known words is close.

    >>> hint("staus", ["run", "status"]), hint("xyzzy", ["run", "status"])
    ("; did you mean 'status'?", '')
    """
    close = get_close_matches(given, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""
