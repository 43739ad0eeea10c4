"""One result per key and time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.notificator import Notificator
from framework.progress.order import Time
from operators.stateful.initial_state import initial_factory
from operators.stateful.key_value import by_key, check_key, is_pair, not_a_pair, raised_here

if TYPE_CHECKING:
    from operators.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")


def aggregate(
    stream: Stream[tuple[K, V]],
    fold: Callable[[K, V, S], S],
    *,
    initial: S | Callable[[], S],
    name: str = "aggregate",
) -> Stream[tuple[K, S]]:
    """Fold the values of each key within each time; send `(key, result)` when the time is complete.

    >>> def add(key, value, total):
    ...     return total + value
    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> pairs = [("tea", 2), ("milk", 1), ("tea", 3)]
    >>> example(lambda scope: to_stream(scope, pairs).aggregate(add, initial=0).extract()).rows()
    [('tea', 5), ('milk', 1)]

    `fold(key, value, state)` returns the new state. `initial` is a value that cannot change, such as `0`, or a function
    that makes a new one, such as `list`. All records of a key come to the same worker; nothing is kept from one time to
    the next.
    """
    make = initial_factory(initial, name)
    by_time: dict[Time, dict[K, S]] = {}

    def logic(input: InputHandle, output: OutputHandle, notificator: Notificator) -> None:
        for capability, rows in input:
            states = by_time.get(capability.time)
            if states is None:
                states = by_time[capability.time] = {}
                notificator.notify_at(capability.retain())
            check_key(rows[0])
            pair: Any = None
            try:
                for pair in rows:
                    key, value = pair
                    states[key] = fold(key, value, states[key] if key in states else make())
            except (TypeError, ValueError) as error:
                if raised_here(error):
                    check_key(pair)
                    if not is_pair(pair):
                        raise not_a_pair(pair, name) from error
                raise
        for complete in notificator:
            output.session(complete).give_container(list(by_time.pop(complete.time).items()))

    return stream.unary_notify(logic, pact=by_key(name), name=name)
