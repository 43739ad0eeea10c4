"""The logic of operators with a state per bin: a function for the records of a bin, and one for its timers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from framework.errors import GraphError
from operators.errors import FoldMisreturned
from routing.bins import BinId, Bins
from routing.options import BinOptions
from routing.placement import Key
from routing.state.memory import MemoryStore
from routing.state.per_bin import Bin, PerBinState
from routing.state.timers import PendingTimers

Consume = Callable[[int, int, list[Any], Bin], list[Any]]
"""From an input's number, a time, records of one bin at that time, and the bin, to outputs."""
OnDue = Callable[[int, list[Any], Bin], list[Any]]
"""From a time that is complete, the items of one bin that are due then, and the bin, to outputs."""


def options_per_bin(bins: int | BinOptions, name: str) -> BinOptions:
    """The options of an operator that has no state per key, for which a store could be chosen."""
    options = BinOptions.of(bins)
    if options.store is not MemoryStore:
        raise GraphError(
            f"operator {name!r} keeps no state per key, and cannot use a store; leave `store` out of its BinOptions, "
            f"or keep the state per key, with `stateful_state_machine` or `process`"
        )
    return options


class BinnedLogic:
    """Calls the user's functions bin by bin; the cost is that of the bins with work."""

    def __init__(
        self,
        consume: Consume,
        on_due: OnDue,
        *,
        keys: Sequence[Key],
        initial: Callable[[], Any],
        bins: Bins,
        name: str,
    ) -> None:
        self.timers = PendingTimers()
        self.bin_state = PerBinState(initial, self.timers)
        self._consume = consume
        self._on_due = on_due
        self._keys = keys
        self._bins = bins
        self._name = name

    def apply(self, port: int, time: int, rows: list[Any]) -> list[Any]:
        """Give each bin its records."""
        by_bin: dict[BinId, list[Any]] = {}
        key, bin_of = self._keys[port], self._bins.of
        for row in rows:
            by_bin.setdefault(bin_of(key(row)), []).append(row)
        outputs: list[Any] = []
        for bin_id, some in by_bin.items():
            bin = self.bin_state.bin_at(bin_id, time)
            outputs += self._check(self._consume(port, time, some, bin))
            bin.leave()
        return outputs

    def on_due(self, time: int) -> list[Any]:
        """Give each bin its items that are due."""
        outputs: list[Any] = []
        for bin_id, items in self.timers.pop_due(time):
            bin = self.bin_state.bin_at(bin_id, time)
            outputs += self._check(self._on_due(time, items, bin))
            bin.leave()
        return outputs

    def _check(self, outputs: Any) -> list[Any]:
        if not isinstance(outputs, list):
            raise FoldMisreturned(
                f"operator {self._name!r} expects its function to return a list of outputs, and it returned "
                f"{type(outputs).__name__}; return [] if there are none"
            )
        return outputs
