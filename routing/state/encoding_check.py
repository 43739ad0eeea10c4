"""Whether states can leave their worker is found out when they are made, not when their bin is the first to move.

The first entry that is met of each pair of types, of a key and of its state, is encoded and thrown away. What comes
later may still hold something else inside: a bin that is about to move is asked for its `obstacle`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framework.errors import UnencodableRecord
from framework.wire import codec
from routing.state.errors import UnencodableState, unencodable

TRIED_MAX = 64
"""How many new states of a batch are looked at: each is a look-up that misses the cache."""


class EncodingCheck:
    """What has been tried of one operator's states on one worker."""

    def __init__(self, operator: str) -> None:
        self._operator = operator
        self._passed: set[object] = set()

    def states(self, states: Mapping[Any, Any], born: Sequence[Any], changed: Any) -> None:
        """Check the types of some new states, and of one key's that has `changed`. Hot path: once per batch."""
        keys = [*born[:TRIED_MAX], changed]
        kinds = set(zip(map(type, keys), map(type, map(states.get, keys)), strict=True))
        if kinds <= self._passed:
            return
        for key in keys:
            kind = type(key), type(states.get(key))
            if kind not in self._passed:
                self._try(f"the state of key {key!r}", (key, states.get(key)), states.get(key))
                self._passed.add(kind)

    def bin_state(self, state: Any) -> None:
        """Check the type of a bin's state, or of the last entry of a dictionary."""
        if type(state) is dict:
            for key in reversed(state):
                self.states(state, (), key)
                break
        else:
            self._value("the state of a bin", state)

    def put_off(self, time: int, item: Any) -> None:
        """Check the type of what was put off."""
        self._value(f"what was put off until {time}", item)

    def _value(self, what: str, value: Any) -> None:
        if type(value) not in self._passed:
            self._try(what, value, value)
            self._passed.add(type(value))

    def _try(self, what: str, value: Any, culprit: Any) -> None:
        try:
            codec.encode_value(value)
        except UnencodableRecord as error:
            raise UnencodableState(
                f"operator {self._operator!r} keeps what could not move to another worker: "
                f"{unencodable(what, culprit, error)}"
            ) from error
