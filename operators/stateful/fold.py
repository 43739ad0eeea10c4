"""How a fold changes the states of keys, record by record; and a fold as the logic of S."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any, Final, TypeVar

from operators.error_context import attach_record
from operators.errors import FoldMisreturned
from operators.stateful.key_value import check_key, check_pairs, is_pair, not_a_pair, raised_here
from routing.bins import Bins
from routing.options import BinOptions
from routing.state.keyed import KeyedState
from routing.state.timers import PendingTimers

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")


class Discard(Enum):
    """The type of `DISCARD`."""

    DISCARD = auto()


DISCARD: Final = Discard.DISCARD
"""What a fold returns instead of a new state to forget the key."""

Fold = Callable[[K, V, S], tuple[S | Discard, Iterable[R]]]
"""From a key, a value and the key's state to the new state and outputs."""


class FoldLoop:
    """Applies a fold to rows of (key, value); the states are the caller's."""

    def __init__(self, fold: Fold[Any, Any, Any, Any], make: Callable[[], Any], name: str) -> None:
        self._fold = fold
        self._make = make
        self._name = name

    def __call__(self, states: dict[Any, Any], rows: list[tuple[Any, Any]]) -> tuple[list[Any], list[Any], list[Any]]:
        """Apply rows in order; return the outputs, the keys that were not there, and those that were forgotten.

        Hot path: flat, and one Python call per record.
        """
        fold, make = self._fold, self._make
        get, absent = states.get, DISCARD
        outputs: list[Any] = []
        born: list[Any] = []
        gone: list[Any] = []
        pair: Any = None
        try:
            for pair in rows:
                key, value = pair
                state = get(key, absent)
                if state is absent:
                    state = make()
                    born.append(key)
                state, given = fold(key, value, state)
                if state is absent:
                    states.pop(key, None)
                    gone.append(key)
                else:
                    states[key] = state
                outputs += given
        except Exception as error:
            self._explain(pair, error)
            attach_record(error, pair)
            raise
        return outputs, born, gone

    def _explain(self, pair: Any, error: Exception) -> None:
        """Raise a better error if the record or what the fold returned has the wrong shape."""
        if not isinstance(error, TypeError | ValueError) or not raised_here(error):
            return
        if not is_pair(pair):
            raise not_a_pair(pair, self._name) from error
        check_key(pair)
        raise FoldMisreturned(
            f"operator {self._name!r} expects a fold(key, value, state) that returns (state, outputs), with outputs "
            f"a list; for {pair!r} Python said: {error}"
        ) from error


class StateMachine:
    """A fold as the logic of S."""

    def __init__(self, fold: Fold[Any, Any, Any, Any], make: Callable[[], Any], options: BinOptions, name: str) -> None:
        self.timers = PendingTimers()
        self._store = options.store(Bins(options.bins))
        self.bin_state = KeyedState(self._store, self.timers)
        self._loop = FoldLoop(fold, make, name)
        self._name = name

    def apply(self, port: int, time: int, rows: list[Any]) -> list[Any]:
        """Apply the fold."""
        outputs: list[Any] = []
        try:
            for states, group in self._store.groups(rows):
                given, born, gone = self._loop(states, group)
                self._store.end(states, born=born, changed=(key for key, _ in group), gone=gone)
                outputs += given
        except (TypeError, ValueError) as error:
            check_pairs(rows, self._name, error)
            raise
        return outputs

    def on_due(self, time: int) -> list[Any]:
        """A fold sets no timers."""
        raise AssertionError(time)
