"""Records that are pairs of a key and a value: where they go, and what to say of those that are something else."""

from __future__ import annotations

from typing import Any

from framework.dataflow.pact import Fixed
from operators.errors import RecordNotPair
from routing.hashing import stable_hash


def by_key(operator: str) -> Fixed:
    """Brings all pairs of one key to one worker, chosen by the key's stable hash."""

    def route(pair: Any) -> int:
        try:
            return stable_hash(pair[0])
        except (TypeError, LookupError) as error:
            raise not_a_pair(pair, operator) from error

    return Fixed(route)


def check_key(pair: Any) -> None:
    """Raise for a key that could not be routed. On one worker nothing is, so the job would fail on two only."""
    if is_pair(pair):
        stable_hash(pair[0])


def is_pair(record: Any) -> bool:
    """Whether a record is a key and a value."""
    return isinstance(record, tuple | list) and len(record) == 2


def not_a_pair(record: Any, operator: str) -> RecordNotPair:
    """The error for a record that is not a pair."""
    return RecordNotPair(
        f"operator {operator!r} expects pairs (key, value), and received {record!r}; put a `map` before it"
    )


def check_pairs(records: list[Any], operator: str, error: Exception) -> None:
    """Raise if some record is not a pair, which then was the cause of `error`."""
    for record in records:
        if not is_pair(record):
            raise not_a_pair(record, operator) from error


def raised_here(error: BaseException) -> bool:
    """Whether an error caught by this function's caller comes from its own lines, not from what it called."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None
