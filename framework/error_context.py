"""Says which function of the job failed, and on which record."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
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
    try:
        shown = repr(record)
    except Exception as failure:  # the job's own, or the recursion's limit: the error that is told is another
        shown = f"a {type(record).__qualname__}, whose repr raised {type(failure).__name__}"
    if len(shown) > SHOWN_CHARACTERS:
        shown = f"{shown[:SHOWN_CHARACTERS]}… ({len(shown):,} characters)"
    error.add_note(f"the record was {shown}")


def attach_last_record(error: Exception, rows: list[Any], left: Iterator[Any]) -> None:
    """Add the record that was taken last from `left`, an iterator over `rows`, so that hot loops need not name it."""
    attach_record(error, rows[len(rows) - left.__length_hint__() - 1])  # type: ignore[attr-defined]


def definition_of(function: object) -> str:
    """What a function is called and where it is defined, for errors that have no frame of its own in their traceback.

    >>> definition_of(len), definition_of(partial(definition_of, len)).partition(" ")[0]
    ('len', 'definition_of')
    """
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(function, "__code__", None)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def raised_here(error: BaseException) -> bool:
    """Whether an error caught by this function's caller comes from its own lines, not from what it called."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None
