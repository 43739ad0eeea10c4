"""State and timers per key: the form that joins, windows and logic of one's own take, on bins or fixed by hash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from framework.error_context import attach_record, definition_of, raised_here
from framework.errors import TimeNotCovered
from operators.errors import FoldMisreturned
from operators.stateful.fold import DISCARD
from operators.stateful.key_value import KeyValue, check_key
from operators.stateful.placement import place
from operators.stateful.returned import is_among, may_be_changed, outputs_of, snapshot
from routing.bins import Bins
from routing.commands import Control
from routing.options import BinOptions
from routing.placement import Key
from routing.state.keyed import KeyedState
from routing.state.nan_key import WITHOUT_NAN, one_nan
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

    Records are applied in the order of times, those of one time before its timers and, with more than one worker, in
    any order: whoever wants another one keeps them, and sorts in a timer for `timers.time`. What a step returns follows
    the rules of a fold's outputs and states (`state_machine`). A timer goes off
    when its time is complete, once per key and time however often it was set; a key without a state is not called.
    `control` and `bins` are those of `stateful_state_machine`.
    """
    options, keys = BinOptions.of(bins), [key for _, key in streams]
    return place(streams, lambda: ProcessLogic(logic, keys, options, name), control=control, options=options, name=name)


class ProcessLogic:
    """A process as the logic of S."""

    def __init__(self, process: Process, keys: list[Key], options: BinOptions, name: str) -> None:
        bins = Bins(options.bins)
        self.timers = PendingTimers(once=True)
        self._store = options.store(bins)
        self.bin_state = KeyedState(self._store, self.timers)
        self._process = process
        self._keyed = [KeyValue(key, None, name) for key in keys]
        self._name = name
        self._for_key = Timers(self.timers, bins)

    def apply(self, port: int, time: int, rows: list[Any]) -> list[Any]:
        """Apply records one by one."""
        step = partial(self._process.on_record, port)
        outputs: list[Any] = []
        for states, group in self._store.groups(self._keyed[port].pairs(rows)):
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
        key = row = None
        try:
            for key, row in rows:
                state = get(key, absent)
                if state is absent and (
                    type(key) in WITHOUT_NAN or (state := get(key := one_nan(key), absent)) is absent
                ):
                    state = initial()
                    born.append(key)
                timers.key = key
                state, given = step(row, state, timers)
                if type(given) is not list:
                    given = outputs_of(given, step, row, self._name)
                if state is absent:
                    states.pop(key, None)
                    gone.append(key)
                else:
                    states[key] = state
                    if may_be_changed(state) and is_among(state, given):
                        states[key] = snapshot(state)
                outputs += given
        except Exception as error:
            if isinstance(error, TypeError | ValueError) and raised_here(error):
                check_key((key, row))
                raise FoldMisreturned(
                    f"operator {self._name!r} expects {definition_of(step)} to return (state, outputs), with outputs a "
                    f"list; it did not for {row!r}, and Python said: {error}"
                ) from error
            attach_record(error, row)
            raise
        self._store.end(states, born=born, changed=(key for key, _ in rows), gone=gone)
        self.bin_state.kept(states, born, rows)
        return outputs
