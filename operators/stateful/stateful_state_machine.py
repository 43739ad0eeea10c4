"""State per key, on bins that move between workers while the stream goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from operators.stateful.fold import Fold, StateMachine
from operators.stateful.initial_state import initial_factory
from operators.stateful.key_value import KeyValue
from operators.stateful.placement import place
from routing.commands import Control
from routing.options import BinOptions

if TYPE_CHECKING:
    from operators.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T")


@overload
def stateful_state_machine(
    stream: Stream[tuple[K, V]],
    fold: Fold[K, V, S, R],
    *,
    initial: S | Callable[[], S],
    control: Stream[Control] | None = ...,
    bins: int | BinOptions = ...,
    name: str = ...,
) -> Stream[R]: ...


@overload
def stateful_state_machine(
    stream: Stream[T],
    fold: Fold[K, T, S, R],
    *,
    initial: S | Callable[[], S],
    key: Callable[[T], K],
    control: Stream[Control] | None = ...,
    bins: int | BinOptions = ...,
    name: str = ...,
) -> Stream[R]: ...


@overload
def stateful_state_machine(
    stream: Stream[T],
    fold: Fold[K, V, S, R],
    *,
    initial: S | Callable[[], S],
    key: Callable[[T], K],
    value: Callable[[T], V],
    control: Stream[Control] | None = ...,
    bins: int | BinOptions = ...,
    name: str = ...,
) -> Stream[R]: ...


def stateful_state_machine(
    stream: Stream[Any],
    fold: Fold[Any, Any, Any, R],
    *,
    initial: Any,
    key: Callable[[Any], Any] | None = None,
    value: Callable[[Any], Any] | None = None,
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "stateful_state_machine",
) -> Stream[R]:
    """Apply records to the state of their key, in the order of their times, at the worker that owns the key's bin then.

    >>> def count(word, n, total):
    ...     total += n
    ...     return total, [(word, total)]
    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> pairs = [("tea", 1), ("milk", 1), ("tea", 1)]
    >>> example(lambda scope: to_stream(scope, pairs).stateful_state_machine(count, initial=0).extract()).rows()
    [('tea', 1), ('milk', 1), ('tea', 2)]

    `fold`, `initial`, `key` and `value` are those of `state_machine`; with more than one worker, records of a key may
    overtake one another within their time, as there.

    `control` is the stream of `Control` commands, brought to all
    workers with `broadcast()`; records wait until no command at their time can still come, so let it advance with, or
    ahead of, the data. Without one, an operator of a job listens to the job's own (`Flow.command`), and outside of a
    job each key stays on the worker that its hash names. That makes no difference to the outputs of a time.

    `bins` is the number of bins, a power of two, or `BinOptions`, which also say where the states are, and who is told
    what became of commands. All stateful operators have these two parameters.
    """
    keyed, options, make = KeyValue(key, value, name), BinOptions.of(bins), initial_factory(initial, name)
    return place(
        [(stream, keyed.key)],
        lambda: StateMachine(fold, make, keyed, options, name),
        control=control,
        options=options,
        name=name,
    )
