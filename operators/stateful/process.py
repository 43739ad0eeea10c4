"""State and timers per key: the form that joins, windows and logic of one's own take, on bins or fixed by hash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from framework.errors import TimeNotCovered
from operators.error_context import attach_record
from operators.stateful.fold import DISCARD
from operators.stateful.placement import place
from routing.bins import Bins
from routing.commands import Control
from routing.options import BinOptions
from routing.placement import Key
from routing.state.keyed import KeyedState
from routing.state.timers import PendingTimers

if TYPE_CHECKING:
    from operators.stream import Stream


class Timers:
    """The time at hand, and timers for the key at hand."""

    __slots__ = ("_bins", "_timers", "key", "time")

    def __init__(self, timers: PendingTimers, bins: Bins) -> None:
        self._timers = timers
        self._bins = bins
        self.key: Any = None
        self.time = 0

    def set(self, time: int) -> None:
        """Have `on_timer` called for this key, once, when `time`, not before the current one, is complete."""
        if time < self.time:
            raise TimeNotCovered(f"a timer was set for {time} at time {self.time}; set it for this time or a later one")
        self._timers.set(self._bins.of(self.key), time, self.key)


class Process(Protocol):
    """What happens to the state of a key. A state is a value that the codec encodes."""

    def initial(self) -> Any:
        """The state of a key that was not seen before."""

    def on_record(self, port: int, record: Any, state: Any, timers: Timers) -> tuple[Any, list[Any]]:
        """From a record of input `port` and the key's state to the new state, or DISCARD, and outputs."""

    def on_timer(self, key: Any, state: Any, timers: Timers) -> tuple[Any, list[Any]]:
        """From a timer at `timers.time`, which is complete, and the key's state to the new state and outputs."""


def process(
    streams: Sequence[tuple[Stream[Any], Key]],
    logic: Process,
    *,
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "process",
) -> Stream[Any]:
    """Run `logic` on the records of `streams`, each with the function that gives a record's key.

    >>> class Remind:
    ...     def initial(self):
    ...         return 0
    ...     def on_record(self, port, record, state, timers):
    ...         timers.set(timers.time + 2)
    ...         return state + 1, []
    ...     def on_timer(self, key, state, timers):
    ...         return DISCARD, [(key, state)]
    >>> from framework.launch.execute import example
    >>> from operators.input.iterator_source import iterator_source
    >>> from operators.stateful.process import process
    >>> def build(scope):
    ...     names = iterator_source(scope, [(0, ["tea", "tea"]), (1, ["milk"])])
    ...     return process([(names, str)], Remind()).extract()
    >>> example(build).by_time()
    {2: [('tea', 2)], 3: [('milk', 1)]}

    Records are applied in the order of times, those of one time in any order and before its timers. A timer goes off
    when its time is complete, once per key and time however often it was set; a key without a state is not called.
    `control` and `bins` are those of `stateful_state_machine`.
    """
    options, keys = BinOptions.of(bins), [key for _, key in streams]
    return place(streams, lambda: _ProcessLogic(logic, keys, options), control=control, options=options, name=name)


class _ProcessLogic:
    """A process as the logic of S."""

    def __init__(self, process: Process, keys: list[Key], options: BinOptions) -> None:
        bins = Bins(options.bins)
        self.timers = PendingTimers(once=True)
        self._store = options.store(bins)
        self.bin_state = KeyedState(self._store, self.timers)
        self._process = process
        self._keys = keys
        self._for_key = Timers(self.timers, bins)

    def apply(self, port: int, time: int, rows: list[Any]) -> list[Any]:
        """Apply records one by one."""
        key_of, step = self._keys[port], partial(self._process.on_record, port)
        outputs: list[Any] = []
        for states, group in self._store.groups([(key_of(row), row) for row in rows]):
            outputs += self._each(time, states, group, step)
        return outputs

    def on_due(self, time: int) -> list[Any]:
        """Let the timers of `time` go off, once for each key that has a state."""
        due = [(key, key) for _, keys in self.timers.pop_due(time) for key in keys]
        outputs: list[Any] = []
        for states, group in self._store.groups(due):
            present = [pair for pair in group if pair[0] in states]
            outputs += self._each(time, states, present, self._process.on_timer)
        return outputs

    def _each(
        self,
        time: int,
        states: dict[Any, Any],
        rows: list[tuple[Any, Any]],
        step: Callable[[Any, Any, Timers], tuple[Any, list[Any]]],
    ) -> list[Any]:
        """Take one step per row, on the state of its key. Hot path: flat, and one Python call per record."""
        timers, initial = self._for_key, self._process.initial
        get, absent = states.get, DISCARD
        timers.time = time
        outputs: list[Any] = []
        born: list[Any] = []
        gone: list[Any] = []
        row: Any = None
        try:
            for key, row in rows:
                state = get(key, absent)
                if state is absent:
                    state = initial()
                    born.append(key)
                timers.key = key
                state, given = step(row, state, timers)
                if state is absent:
                    states.pop(key, None)
                    gone.append(key)
                else:
                    states[key] = state
                outputs += given
        except Exception as error:
            attach_record(error, row)
            raise
        self._store.end(states, born=born, changed=(key for key, _ in rows), gone=gone)
        return outputs
