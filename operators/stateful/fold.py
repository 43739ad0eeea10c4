"""How a fold changes the states of keys, record by record; and a fold as the logic of S."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from sys import getrefcount
from typing import Any, Final, TypeVar

from framework.error_context import attach_record, definition_of, raised_here
from operators.errors import FoldMisreturned
from operators.stateful.key_value import KeyValue, check_key, check_pairs, is_pair, not_a_pair
from operators.stateful.returned import SCALARS, is_among, may_be_changed, outputs_of, snapshot
from routing.bins import Bins
from routing.options import BinOptions
from routing.state.keyed import KeyedState
from routing.state.nan_key import WITHOUT_NAN, one_nan
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

Fold = Callable[[K, V, S], tuple[S | Discard, list[R] | Iterator[R] | tuple[()]]]
"""From a key, a value and the key's state to the new state and outputs."""


LOOP_REFERENCES = 3
"""How many references to a state `FoldLoop` has itself: a variable, a dictionary, and the question how many."""


class FoldLoop:
    """Applies a fold to rows of (key, value); the states are the caller's."""

    def __init__(self, fold: Fold[Any, Any, Any, Any], make: Callable[[], Any], name: str) -> None:
        self._fold = fold
        self._make = make
        self._name = name
        first = make()
        self._may_change_in_place = first is None or type(first) not in SCALARS

    def __call__(self, states: dict[Any, Any], rows: list[tuple[Any, Any]]) -> tuple[list[Any], list[Any], list[Any]]:
        """Apply rows in order; return the outputs, the keys that were not there, and those that were forgotten.

        Hot path: flat, and one Python call per record. A state that is also sent is replaced by a copy, which later
        records may change; if nothing but this loop refers to it, it was not sent.
        """
        fold, make, may_change_in_place = self._fold, self._make, self._may_change_in_place
        get, absent = states.get, DISCARD
        outputs: list[Any] = []
        born: list[Any] = []
        gone: list[Any] = []
        pair: Any = None
        try:
            for pair in rows:
                key, value = pair
                state = get(key, absent)
                if state is absent and (
                    type(key) in WITHOUT_NAN or (state := get(key := one_nan(key), absent)) is absent
                ):
                    state = make()
                    born.append(key)
                state, given = fold(key, value, state)
                if type(given) is not list:
                    given = outputs_of(given, fold, pair, self._name)
                if state is absent:
                    states.pop(key, None)
                    gone.append(key)
                else:
                    states[key] = state
                    if (
                        may_change_in_place
                        and getrefcount(state) > LOOP_REFERENCES
                        and may_be_changed(state)
                        and is_among(state, given)
                    ):
                        states[key] = snapshot(state)
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
            f"a list; {definition_of(self._fold)} did not for {pair!r}, and Python said: {error}"
        ) from error


class StateMachine:
    """A fold as the logic of S."""

    def __init__(
        self,
        fold: Fold[Any, Any, Any, Any],
        make: Callable[[], Any],
        keyed: KeyValue,
        options: BinOptions,
        name: str,
    ) -> None:
        self.timers = PendingTimers()
        self._store = options.store(Bins(options.bins))
        self.bin_state = KeyedState(self._store, self.timers)
        self._loop = FoldLoop(fold, make, name)
        self._keyed = keyed
        self._name = name

    def apply(self, port: int, time: int, rows: list[Any]) -> list[Any]:
        """Apply the fold."""
        outputs: list[Any] = []
        pairs = self._keyed.pairs(rows)
        try:
            for states, group in self._store.groups(pairs):
                given, born, gone = self._loop(states, group)
                self._store.end(states, born=born, changed=(key for key, _ in group), gone=gone)
                self.bin_state.kept(states, born, group)
                outputs += given
        except (TypeError, ValueError) as error:
            check_pairs(pairs, self._name, error)
            raise
        return outputs

    def on_due(self, time: int) -> list[Any]:
        """A fold sets no timers."""
        raise AssertionError(time)
