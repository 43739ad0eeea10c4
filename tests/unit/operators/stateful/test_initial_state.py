"""`initial`: what a fold starts with."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from operators.errors import SharedInitial
from operators.stateful.initial_state import initial_factory


@pytest.mark.parametrize("value", [0, "", None, (), frozenset(), b"", 1.5, False])
def test_a_value_stands_for_itself(value: Any):
    make = initial_factory(value, "fold")
    assert make() is value


@pytest.mark.parametrize("factory", [list, dict, set, deque, lambda: [0, 0]])
def test_a_function_is_called_each_time(factory: Any):
    make = initial_factory(factory, "fold")
    assert make() == make() == factory()
    assert make() is not make()


@pytest.mark.parametrize(("value", "remedy"), [([], "list"), ({}, "dict"), (set(), "set"), (bytearray(), "bytearray")])
def test_a_value_that_all_would_share(value: Any, remedy: str):
    with pytest.raises(SharedInitial, match=f"operator 'fold' received initial=.*such as initial={remedy}$"):
        initial_factory(value, "fold")
