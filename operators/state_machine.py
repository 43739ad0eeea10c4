"""State per key, changed by records in the order of their times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, TypeVar

from framework.dataflow.capability import Capability, InputCapability
from framework.progress.antichain import MutableAntichain
from framework.progress.order import Time, linear_key
from operators.errors import FoldMisreturned
from operators.initial import initial_factory
from operators.pairs import by_key, check_key, is_pair, not_a_pair, raised_here

if TYPE_CHECKING:
    from operators.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")


class Discard(Enum):
    """The type of `DISCARD`."""

    DISCARD = auto()


DISCARD: Final = Discard.DISCARD
"""What a fold returns instead of a new state to forget the key."""

Fold = Callable[[K, V, S], tuple[S | Discard, Iterable[R]]]
"""From a key, a value and the key's state to the new state and outputs."""


def state_machine(
    stream: Stream[tuple[K, V]],
    fold: Fold[K, V, S, R],
    *,
    initial: S | Callable[[], S],
    name: str = "state_machine",
) -> Stream[R]:
    """Apply records to the state of their key, in the order of their times.

    >>> def count(word, n, total):
    ...     total += n
    ...     return total, [(word, total)]
    >>> from framework.launch.execute import example
    >>> from operators.to_stream import to_stream
    >>> pairs = [("tea", 1), ("milk", 1), ("tea", 1)]
    >>> example(lambda scope: to_stream(scope, pairs).state_machine(count, initial=0).extract()).rows()
    [('tea', 1), ('milk', 1), ('tea', 2)]

    `fold(key, value, state)` returns the new state, or `DISCARD` to forget the key, and the records to send, each of
    which carries the time of the record that caused it. A record is applied at once if nothing earlier can still
    arrive, else when that is so; records of one time are applied as they arrive.

    `initial` is the state of a key not seen before or forgotten: a value that cannot change, such as `0`, or a function
    that makes a new one, such as `list`.

    All records of a key come to the same worker, chosen by the key's stable hash.
    """
    apply = _Apply(fold, initial_factory(initial, name), name)
    builder = stream.scope.operator(name)
    input = builder.input(stream.outlet, by_key(name))
    output, outlet = builder.output()
    early = _Early(input.frontier)
    operator = builder.operator
    operator.on_shut_down.append(early.clear)
    precedes = input.frontier.less_than

    def logic() -> None:
        for capability, containers in early.due():
            operator.time = capability.time
            with capability:
                session = output.session(capability)
                for rows in containers:
                    session.give_container(apply(rows))
        for arrived, rows in input:
            if precedes(arrived.time):
                early.add(arrived, rows)
            else:
                output.session(arrived).give_container(apply(rows))

    builder.build(lambda _: logic)
    return type(stream)(outlet)  # type: ignore[return-value]


class _Apply:
    """The states, and how records change them."""

    def __init__(self, fold: Fold[Any, Any, Any, Any], make: Callable[[], Any], name: str) -> None:
        self._fold = fold
        self._make = make
        self._name = name
        self._states: dict[Any, Any] = {}

    def __call__(self, rows: list[tuple[Any, Any]]) -> list[Any]:
        """Apply rows in order; return the outputs. Hot path: flat, and one Python call per record."""
        fold, make, states = self._fold, self._make, self._states
        get, absent = states.get, DISCARD
        outputs: list[Any] = []
        check_key(rows[0])
        pair: Any = None
        try:
            for pair in rows:
                key, value = pair
                state = get(key, absent)
                if state is absent:
                    state = make()
                state, given = fold(key, value, state)
                if state is absent:
                    states.pop(key, None)
                else:
                    states[key] = state
                outputs += given
        except (TypeError, ValueError) as error:
            self._explain(pair, error)
            raise
        return outputs

    def _explain(self, pair: Any, error: Exception) -> None:
        """Raise a better error if the record or what the fold returned has the wrong shape."""
        if not raised_here(error):
            return
        if not is_pair(pair):
            raise not_a_pair(pair, self._name) from error
        check_key(pair)
        raise FoldMisreturned(
            f"operator {self._name!r} expects a fold(key, value, state) that returns (state, outputs), with outputs "
            f"a list; for {pair!r} Python said: {error}"
        ) from error


class _Early:
    """Containers that arrived while something earlier could still come, each time with the right to answer it."""

    def __init__(self, frontier: MutableAntichain) -> None:
        self._frontier = frontier
        self._waiting: dict[Time, tuple[Capability, list[Any]]] = {}
        self._order: list[tuple[tuple[int, ...], Time]] = []

    def add(self, arrived: InputCapability, container: Any) -> None:
        """Keep a container until its turn."""
        time = arrived.time
        waiting = self._waiting.get(time)
        if waiting is None:
            self._waiting[time] = arrived.retain(), [container]
            heappush(self._order, (linear_key(time), time))
        else:
            waiting[1].append(container)

    def due(self) -> Iterator[tuple[Capability, list[Any]]]:
        """Take out what nothing earlier can precede any more, earliest first."""
        order, precedes = self._order, self._frontier.less_than
        later: list[tuple[tuple[int, ...], Time]] = []
        while order:
            key, time = heappop(order)
            if precedes(time):
                later.append((key, time))
                if isinstance(time, int):
                    break
            else:
                yield self._waiting.pop(time)
        for entry in later:
            heappush(order, entry)

    def clear(self) -> None:
        """Give everything up."""
        for capability, _ in self._waiting.values():
            capability.drop()
        self._waiting.clear()
        self._order.clear()
