"""Says which record a function of the job failed on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SHOWN_CHARACTERS = 400


def attach_record(error: Exception, record: Any) -> None:
    """Add the record to what an error says; the report of a failed job shows it.

    >>> try:
    ...     int("tea")
    ... except ValueError as error:
    ...     attach_record(error, "tea")
    ...     error.__notes__
    ["the record was 'tea'"]
    """
    shown = repr(record)
    if len(shown) > SHOWN_CHARACTERS:
        shown = f"{shown[:SHOWN_CHARACTERS]}… ({len(shown):,} characters)"
    error.add_note(f"the record was {shown}")


def attach_last_record(error: Exception, rows: list[Any], left: Iterator[Any]) -> None:
    """Add the record that was taken last from `left`, an iterator over `rows`, so that hot loops need not name it."""
    attach_record(error, rows[len(rows) - left.__length_hint__() - 1])  # type: ignore[attr-defined]
