"""Two streams that share a state per bin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from operators.stateful.initial_state import initial_factory
from operators.stateful.per_bin_logic import BinnedLogic, OnDue, options_per_bin
from operators.stateful.placement import place
from routing.bins import Bins
from routing.commands import Control
from routing.options import BinOptions
from routing.placement import Key
from routing.state.per_bin import Bin

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")

BinaryFold = Callable[[int, list[Any], list[Any], Bin], list[Any]]
"""From a time, records of one bin of this stream and of the other, and the bin, to outputs."""


def stateful_binary(
    stream: Stream[T],
    other: Stream[Any],
    fold: BinaryFold,
    *,
    key: Key,
    other_key: Key,
    initial: Any,
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "stateful_binary",
) -> Stream[Any]:
    """Apply the records of two streams to the state of their bin, in the order of their times.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def stock(time, orders, deliveries, bin):
    ...     bin.state += len(deliveries) - len(orders)
    ...     return [bin.state]
    >>> def build(scope):
    ...     orders, deliveries = to_stream(scope, ["tea"]), to_stream(scope, ["tea", "tea"])
    ...     return orders.stateful_binary(deliveries, stock, key=str, other_key=str, initial=0).extract()
    >>> example(build).rows()[-1]
    1

    `fold(time, rows, other_rows, bin)` is called with records of one bin of either stream as soon as nothing earlier
    can still arrive on any of them; one of the lists may be empty. What it puts off, `bin.put_off(later, record)`,
    comes to it again as a record of this stream. The rest is as in `stateful_unary`; keys of the two streams that are
    equal share a bin.
    """
    return stream.stateful_binary_input(
        other,
        fold,
        lambda time, items, bin: fold(time, items, [], bin),
        key=key,
        other_key=other_key,
        initial=initial,
        control=control,
        bins=bins,
        name=name,
    )


def stateful_binary_input(
    stream: Stream[T],
    other: Stream[Any],
    consume: BinaryFold,
    fold: OnDue,
    *,
    key: Key,
    other_key: Key,
    initial: Any,
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "stateful_binary_input",
) -> Stream[Any]:
    """Like `stateful_binary`, with one function for records and another for what they put off.

    `consume(time, rows, other_rows, bin)` takes the records; what it puts off comes to `fold(time, items, bin)` when
    its time is complete.
    """
    options = options_per_bin(bins, name)
    logic = BinnedLogic(
        lambda port, time, rows, bin: consume(time, [] if port else rows, rows if port else [], bin),
        fold,
        keys=[key, other_key],
        initial=initial_factory(initial, name),
        bins=Bins(options.bins),
        name=name,
    )
    return place([(stream, key), (other, other_key)], lambda: logic, control=control, options=options, name=name)
