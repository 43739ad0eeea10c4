"""State per bin, and timers that move along with their bin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from operators.stateful.initial_state import initial_factory
from operators.stateful.per_bin_logic import BinnedLogic, options_per_bin
from operators.stateful.placement import place
from routing.bins import Bins
from routing.commands import Control
from routing.options import BinOptions
from routing.placement import Key
from routing.state.per_bin import Bin

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")

UnaryFold = Callable[[int, list[Any], Bin], list[Any]]
"""From a time, records of one bin, and the bin, to outputs."""


def stateful_unary(
    stream: Stream[T],
    fold: UnaryFold,
    *,
    key: Key,
    initial: Any,
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "stateful_unary",
) -> Stream[Any]:
    """Apply records to the state of their bin, in the order of their times.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def remind(time, rows, bin):
    ...     for row in rows:
    ...         if row not in bin.state:
    ...             bin.state[row] = time
    ...             bin.put_off(time + 2, row)
    ...     return [(time, row) for row in rows]
    >>> def build(scope):
    ...     return to_stream(scope, ["tea"]).stateful_unary(remind, key=str, initial=dict).extract()
    >>> example(build).by_time()
    {0: [(0, 'tea')], 2: [(2, 'tea')]}

    `fold(time, rows, bin)` is called with records of one bin as soon as nothing earlier can still arrive, perhaps
    several times for one time, and returns a list of outputs at that time. With more than one worker, records of one
    time come in any order. It may change or replace `bin.state`, and
    put records off with `bin.put_off(later, record)`: they come to `fold` again when that time is complete.

    `key(record)` decides the bin. `initial` is the state of a new bin: a value that cannot change, or a function that
    makes one. A state moves as the codec encodes it; a `dict` moves entry by entry. It is in memory: a `store` is for
    operators with a state per key.
    """
    return stream.stateful_unary_input(fold, fold, key=key, initial=initial, control=control, bins=bins, name=name)


def stateful_unary_input(
    stream: Stream[T],
    consume: UnaryFold,
    fold: UnaryFold,
    *,
    key: Key,
    initial: Any,
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "stateful_unary_input",
) -> Stream[Any]:
    """Like `stateful_unary`, with one function for records and another for what they put off.

    `consume(time, rows, bin)` takes the records; what it puts off, of whatever type, comes to `fold(time, items, bin)`
    when its time is complete.
    """
    options = options_per_bin(bins, name)
    logic = BinnedLogic(
        lambda _, time, rows, bin: consume(time, rows, bin),
        fold,
        keys=[key],
        initial=initial_factory(initial, name),
        bins=Bins(options.bins),
        name=name,
    )
    return place([(stream, key)], lambda: logic, control=control, options=options, name=name)
