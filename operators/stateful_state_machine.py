"""State per key, on bins that move between workers while the stream goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from operators.fold import Fold, FoldLoop
from operators.initial import initial_factory
from operators.pairs import check_pairs, key_of
from routing.bins import Bins
from routing.commands import Control
from routing.forwarder import Report
from routing.pending import Pending
from routing.shelf import KeyedShelf
from routing.stateful import OnBins, ignore
from routing.store.keyed import StoreMaker
from routing.store.memory import MemoryStore

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
    control: Stream[Control],
    bins: int = 256,
    store: StoreMaker = MemoryStore,
    report: Callable[[Report], None] = ignore,
    name: str = "stateful_state_machine",
) -> Stream[R]:
    """Apply records to the state of their key, in the order of their times, at the worker that owns the key's bin then.

    >>> def count(word, n, total):
    ...     total += n
    ...     return total, [(word, total)]
    >>> from framework.launch.execute import example
    >>> from operators.empty import empty
    >>> from operators.to_stream import to_stream
    >>> def build(scope):
    ...     words = to_stream(scope, [("tea", 1), ("milk", 1), ("tea", 1)])
    ...     return words.stateful_state_machine(count, initial=0, control=empty(scope)).extract()
    >>> example(build).rows()
    [('tea', 1), ('milk', 1), ('tea', 2)]

    `fold` and `initial` are those of `state_machine`. `control` is the stream of `Control` commands, brought to all
    workers with `broadcast()`; records wait until no command at their time can still come, so let it advance with, or
    ahead of, the data. What became of commands is told to `report`, on every worker.

    `bins` is the number of bins, a power of two. `store` makes the store of the states on each worker.
    """
    logic = StateMachine(fold, initial_factory(initial, name), Bins(bins), store, name)
    placement = OnBins(control.outlet, bins=Bins(bins), report=report)
    return type(stream)(placement.place([(stream.outlet, key_of)], logic, name))  # type: ignore[return-value]


class StateMachine:
    """A fold as the logic of a host."""

    def __init__(
        self, fold: Fold[Any, Any, Any, Any], make: Callable[[], Any], bins: Bins, store: StoreMaker, name: str
    ) -> None:
        self.pending = Pending()
        self._store = store(bins)
        self.shelf = KeyedShelf(self._store, self.pending)
        self._loop = FoldLoop(fold, make, name)
        self._name = name

    def apply(self, port: int, time: int, rows: list[Any]) -> list[Any]:
        """Apply the fold."""
        outputs: list[Any] = []
        try:
            for states, group in self._store.groups(rows):
                given, born, gone = self._loop(states, group)
                self._store.end(states, born=born, changed=(key for key, _ in group), gone=gone)
                outputs += given
        except (TypeError, ValueError) as error:
            check_pairs(rows, self._name, error)
            raise
        return outputs

    def call_up(self, time: int) -> list[Any]:
        """A fold puts nothing off."""
        raise AssertionError(time)
