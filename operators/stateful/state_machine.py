"""State per key, changed by records in the order of their times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from framework.dataflow.stash import Stash
from operators.stateful.fold import Fold, FoldLoop
from operators.stateful.initial_state import initial_factory
from operators.stateful.key_value import KeyValue

if TYPE_CHECKING:
    from operators.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T")


@overload
def state_machine(
    stream: Stream[tuple[K, V]], fold: Fold[K, V, S, R], *, initial: S | Callable[[], S], name: str = ...
) -> Stream[R]: ...


@overload
def state_machine(
    stream: Stream[T], fold: Fold[K, T, S, R], *, initial: S | Callable[[], S], key: Callable[[T], K], name: str = ...
) -> Stream[R]: ...


@overload
def state_machine(
    stream: Stream[T],
    fold: Fold[K, V, S, R],
    *,
    initial: S | Callable[[], S],
    key: Callable[[T], K],
    value: Callable[[T], V],
    name: str = ...,
) -> Stream[R]: ...


def state_machine(
    stream: Stream[Any],
    fold: Fold[Any, Any, Any, R],
    *,
    initial: Any,
    key: Callable[[Any], Any] | None = None,
    value: Callable[[Any], Any] | None = None,
    name: str = "state_machine",
) -> Stream[R]:
    """Apply records to the state of their key, in the order of their times.

    >>> def count(word, n, total):
    ...     total += n
    ...     return total, [(word, total)]
    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> pairs = [("tea", 1), ("milk", 1), ("tea", 1)]
    >>> example(lambda scope: to_stream(scope, pairs).state_machine(count, initial=0).extract()).rows()
    [('tea', 1), ('milk', 1), ('tea', 2)]

    `fold(key, value, state)` returns the new state, or `DISCARD` to forget the key, and a list of records to send, or
    an iterator; each carries the time of the record that caused it. A state that was changed in place may be among
    them: a copy goes on. A part of it must not change once it was sent.

    A record is applied at once if nothing earlier can still arrive, else when that is so. Records of one time are
    applied as they arrive: with more than one worker, those of a key may have overtaken one another.

    `key(record)` gives a record's key, and `value(record)` its value, without which the value is the record. Without
    either, records are pairs of key and value.

    `initial` is the state of a key not seen before or forgotten: a value that cannot change, such as `0`, or a class or
    function that makes a new one, such as `list`.

    All records of a key come to the same worker, chosen by the key's stable hash.
    """
    keyed = KeyValue(key, value, name)
    loop = FoldLoop(fold, initial_factory(initial, name), name)
    states: dict[Any, Any] = {}
    builder = stream.scope.operator(name)
    input = builder.input(stream.outlet, keyed.pact)
    output, outlet = builder.output()
    early = Stash[list[Any]]()
    operator = builder.operator
    operator.on_shut_down.append(early.clear)
    precedes, pairs = input.frontier.less_than, keyed.pairs

    def logic() -> None:
        for capability, containers in early.take(lambda time: not precedes(time)):
            operator.time = capability.time
            session = output.session(capability)
            for rows in containers:
                session.give_container(loop(states, pairs(rows))[0])
        for arrived, rows in input:
            if precedes(arrived.time):
                early.add(arrived, rows)
            else:
                output.session(arrived).give_container(loop(states, pairs(rows))[0])

    builder.build(lambda _: logic)
    return type(stream)(outlet)
