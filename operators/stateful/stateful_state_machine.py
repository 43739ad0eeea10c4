"""State per key, on bins that move between workers while the stream goes on."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from operators.stateful.fold import Fold, StateMachine
from operators.stateful.initial_state import initial_factory
from operators.stateful.placement import place
from routing.commands import Control
from routing.options import BinOptions

if TYPE_CHECKING:
    from operators.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")


def stateful_state_machine(
    stream: Stream[tuple[K, V]],
    fold: Fold[K, V, S, R],
    *,
    initial: S | Callable[[], S],
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

    `fold` and `initial` are those of `state_machine`. `control` is the stream of `Control` commands, brought to all
    workers with `broadcast()`; records wait until no command at their time can still come, so let it advance with, or
    ahead of, the data. Without one, an operator of a job listens to the job's own (`Flow.command`), and outside of a
    job each key stays on the worker that its hash names. The outputs of a time are the same in any case.

    `bins` is the number of bins, a power of two, or `BinOptions`, which also say where the states are, and who is told
    what became of commands. All stateful operators have these two parameters.
    """
    options, make = BinOptions.of(bins), initial_factory(initial, name)
    return place(
        [(stream, itemgetter(0))],
        lambda: StateMachine(fold, make, options, name),
        control=control,
        options=options,
        name=name,
    )
