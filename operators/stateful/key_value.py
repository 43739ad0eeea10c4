"""Keys and values of records: where they come from, where a key's records go, and what to say of what has none."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from framework.dataflow.pact import Fixed
from framework.error_context import attach_last_record, definition_of
from operators.errors import RecordNotPair, UserError
from routing.hashing import UnsupportedKey, stable_hash
from routing.placement import Key


class KeyValue:
    """Where an operator's keys and values come from: records are pairs, unless functions give them."""

    def __init__(self, key: Key | None, value: Callable[[Any], Any] | None, operator: str) -> None:
        if value is not None and key is None:
            raise UserError(
                f"operator {operator!r} received a `value` and no `key`; give both, or let records be pairs"
            )
        self._key = key
        self._value = value
        self._operator = operator

    @property
    def key(self) -> Key:
        """Gives a record's key."""
        return self._key or itemgetter(0)

    @property
    def pact(self) -> Fixed:
        """Brings all records of one key to one worker, chosen by the key's stable hash."""
        return by_key(self._operator) if self._key is None else fixed_by(self._key)

    def pairs(self, rows: list[Any]) -> list[Any]:
        """Records as pairs of key and value. Hot path."""
        key, value = self._key, self._value
        if key is None:
            return rows
        left = iter(rows)
        try:
            if value is None:
                return [(key(row), row) for row in left]
            return [(key(row), value(row)) for row in left]
        except Exception as error:
            attach_last_record(error, rows, left)
            raise


def by_key(operator: str) -> Fixed:
    """Brings all pairs of one key to one worker, chosen by the key's stable hash."""

    def route(pair: Any) -> int:
        try:
            return stable_hash(pair[0])
        except (TypeError, LookupError) as error:
            raise not_a_pair(pair, operator) from error

    return Fixed(route)


def fixed_by(key: Key) -> Fixed:
    """Brings all records with the same `key(record)` to one worker, chosen by the key's stable hash."""

    def route(record: Any) -> int:
        try:
            return stable_hash(key(record))
        except UnsupportedKey as error:
            error.add_note(f"the key was given by {definition_of(key)}")
            raise

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
        f"operator {operator!r} expects pairs (key, value), and received {record!r}; say `key=`, or "
        f"put a `map` before it"
    )


def check_pairs(records: list[Any], operator: str, error: Exception) -> None:
    """Raise if some record is not a pair, which then was the cause of `error`."""
    for record in records:
        if not is_pair(record):
            raise not_a_pair(record, operator) from error
