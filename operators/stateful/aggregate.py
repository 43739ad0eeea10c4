"""One result per key and time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.notificator import Notificator
from framework.error_context import attach_record, raised_here
from framework.progress.order import Time
from operators.stateful.initial_state import initial_factory
from operators.stateful.key_value import KeyValue, check_key, is_pair, not_a_pair
from operators.stateful.returned import refuse_none
from routing.state.nan_key import one_nan

if TYPE_CHECKING:
    from operators.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")
T = TypeVar("T")


@overload
def aggregate(
    stream: Stream[tuple[K, V]], fold: Callable[[K, V, S], S], *, initial: S | Callable[[], S], name: str = ...
) -> Stream[tuple[K, S]]: ...


@overload
def aggregate(
    stream: Stream[T],
    fold: Callable[[K, T, S], S],
    *,
    initial: S | Callable[[], S],
    key: Callable[[T], K],
    name: str = ...,
) -> Stream[tuple[K, S]]: ...


@overload
def aggregate(
    stream: Stream[T],
    fold: Callable[[K, V, S], S],
    *,
    initial: S | Callable[[], S],
    key: Callable[[T], K],
    value: Callable[[T], V],
    name: str = ...,
) -> Stream[tuple[K, S]]: ...


def aggregate(
    stream: Stream[Any],
    fold: Callable[[Any, Any, Any], Any],
    *,
    initial: Any,
    key: Callable[[Any], Any] | None = None,
    value: Callable[[Any], Any] | None = None,
    name: str = "aggregate",
) -> Stream[tuple[Any, Any]]:
    """Fold the values of each key within each time; send `(key, result)` when the time is complete.

    >>> def add(key, value, total):
    ...     return total + value
    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> pairs = [("tea", 2), ("milk", 1), ("tea", 3)]
    >>> example(lambda scope: to_stream(scope, pairs).aggregate(add, initial=0).extract()).rows()
    [('tea', 5), ('milk', 1)]

    `fold(key, value, state)` returns the new state, also if it changed the old one in place. `initial` is a value that
    cannot change, such as `0`, or a class or function that makes a new one, such as `list`. All records of a key come
    to the same worker, in any order; nothing is kept from one time to the next.

    `key(record)` gives a record's key, and `value(record)` its value, without which the value is the record. Without
    either, records are pairs of key and value.
    """
    keyed, make = KeyValue(key, value, name), initial_factory(initial, name)
    by_time: dict[Time, dict[Any, Any]] = {}

    def logic(input: InputHandle, output: OutputHandle, notificator: Notificator) -> None:
        for capability, rows in input:
            states = by_time.get(capability.time)
            if states is None:
                states = by_time[capability.time] = {}
                notificator.notify_at(capability.retain())
            pairs, pair = keyed.pairs(rows), None
            try:
                for pair in pairs:
                    its_key, its_value = pair
                    if its_key not in states:
                        its_key = one_nan(its_key)
                    state = fold(its_key, its_value, states[its_key] if its_key in states else make())
                    if state is None:
                        refuse_none(fold, make, repr(pair), name)
                    states[its_key] = state
            except Exception as error:
                if isinstance(error, TypeError | ValueError) and raised_here(error):
                    check_key(pair)
                    if not is_pair(pair):
                        raise not_a_pair(pair, name) from error
                attach_record(error, pair)
                raise
        for complete in notificator:
            output.session(complete).give_container(list(by_time.pop(complete.time).items()))

    return stream.unary_notify(logic, pact=keyed.pact, name=name)
