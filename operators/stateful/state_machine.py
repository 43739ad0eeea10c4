"""State per key, changed by records in the order of their times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeVar

from framework.dataflow.capability import Capability, InputCapability
from framework.progress.antichain import MutableAntichain
from framework.progress.order import Time, linear_key
from operators.stateful.fold import Fold, FoldLoop
from operators.stateful.initial_state import initial_factory
from operators.stateful.key_value import by_key, check_key

if TYPE_CHECKING:
    from operators.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")


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
    >>> from operators.input.to_stream import to_stream
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
    loop = FoldLoop(fold, initial_factory(initial, name), name)
    states: dict[Any, Any] = {}
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
                    session.give_container(loop(states, rows)[0])
        for arrived, rows in input:
            check_key(rows[0])
            if precedes(arrived.time):
                early.add(arrived, rows)
            else:
                output.session(arrived).give_container(loop(states, rows)[0])

    builder.build(lambda _: logic)
    return type(stream)(outlet)  # type: ignore[return-value]


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
        """Take out what nothing earlier can still precede, earliest first."""
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
        """Drop everything."""
        for capability, _ in self._waiting.values():
            capability.drop()
        self._waiting.clear()
        self._order.clear()
