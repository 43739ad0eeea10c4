"""`initial`: what a fold starts with."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from operators import Pane
from operators.errors import SharedInitial
from operators.stateful.initial_state import initial_factory


class Plain:
    """Can be changed, and has the hash of any object."""


@dataclass(frozen=True)
class Frozen:
    n: int = 0


@dataclass(frozen=True)
class FrozenList:
    items: list[int]


@dataclass
class Open:
    n: int = 0

    def __repr__(self) -> str:
        return "Open()"


@pytest.mark.parametrize(
    "value", [0, "", None, (), frozenset(), b"", 1.5, False, (0, ("a",)), Decimal(1), Frozen(), Pane.EARLY]
)
def test_a_value_stands_for_itself(value: Any):
    make = initial_factory(value, "fold")
    assert make() is value


@pytest.mark.parametrize("factory", [list, dict, set, deque, lambda: [0, 0]])
def test_a_function_is_called_each_time(factory: Any):
    make = initial_factory(factory, "fold")
    assert make() == make() == factory()
    assert make() is not make()


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ([], "list"),
        ({}, "dict"),
        (set(), "set"),
        (bytearray(), "bytearray"),
        (deque(), "deque"),
        (Plain(), "Plain"),
        (Open(), "Open"),
        (FrozenList([]), r".*"),
        (([], 0), r"lambda: \(\[\], 0\)"),
        ((0, Plain()), "lambda: .*"),
        ([1], r"lambda: \[1\]"),
    ],
)
def test_a_value_that_all_would_share(value: Any, remedy: str):
    with pytest.raises(SharedInitial, match=f"operator 'fold' received initial=.*such as initial={remedy}$"):
        initial_factory(value, "fold")
