"""What a fold returned: what cannot be meant is refused, and what is sent is kept apart from the state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import fields, is_dataclass
from typing import Any

from framework.error_context import definition_of
from operators.errors import FoldMisreturned

SCALARS = frozenset({int, float, bool, str, bytes, type(None)})
"""The types of states that a fold replaces, for it cannot change them."""

NESTED_MAX = 8
"""How deep a state is looked for in an output."""


def outputs_of(given: Any, fold: object, record: object, operator: str) -> list[Any]:
    """The outputs that a fold gave other than as a list; raises for what may well be a single output.

    >>> outputs_of((n + 1 for n in range(2)), outputs_of, "tea", "count")
    [1, 2]
    """
    if isinstance(given, str | bytes | bytearray | dict) or (isinstance(given, tuple) and given):
        remedy = f"to send that as one output, return [{given!r}]"
    elif isinstance(given, Iterable):
        return list(given)
    else:
        remedy = "return [] if there are none"
    raise FoldMisreturned(
        f"operator {operator!r} expects a fold that returns (state, outputs), with outputs a list or a generator; "
        f"{definition_of(fold)} gave {given!r} as outputs for {record!r}; {remedy}"
    )


def refuse_none(fold: object, initial: Callable[[], object], given: str, operator: str) -> None:
    """Raise for a fold that returned None for what it was given, unless its states begin with that."""
    if initial() is not None:
        raise FoldMisreturned(
            f"operator {operator!r} expects a fold that returns the new state; {definition_of(fold)} returned None for "
            f"{given}; return the state, also if it was changed in place"
        )


def may_be_changed(state: Any) -> bool:
    """Whether a fold can change a state in place: a tuple of scalars, it can only replace. Hot path."""
    kind = type(state)
    return kind not in SCALARS and not (kind is tuple and SCALARS.issuperset(map(type, state)))


def is_among(state: object, outputs: Iterable[Any], depth: int = NESTED_MAX) -> bool:
    """Whether a state is one of the outputs, or within one that is a tuple, list, dictionary or dataclass. Hot path.

    >>> state = ["tea"]
    >>> is_among(state, [("k", (1, state))]), is_among(state, [("k", ["tea"])])
    (True, False)
    """
    for output in outputs:
        if output is state:
            return True
        if type(output) in SCALARS or not depth:
            continue
        if isinstance(output, dict):
            output = output.values()
        elif is_dataclass(output) and not isinstance(output, type):
            output = [getattr(output, each.name) for each in fields(output)]
        elif not isinstance(output, tuple | list):
            continue
        if is_among(state, output, depth - 1):
            return True
    return False


def snapshot(state: Any) -> Any:
    """The state as it is now, whatever a fold changes in place later.

    >>> state = ["tea"]
    >>> snapshot(state) == state, snapshot(state) is state, snapshot("tea")
    (True, False, 'tea')
    """
    if type(state) in SCALARS:
        return state
    if type(state) in (list, set, dict) and SCALARS.issuperset(map(type, _contents(state))):
        return state.copy()
    return deepcopy(state)


def _contents(state: Any) -> Iterable[Any]:
    return state.values() if type(state) is dict else state
