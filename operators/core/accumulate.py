"""One result per time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.notificator import Notificator
from framework.dataflow.pact import Pact
from framework.progress.order import Time
from operators.stateful.initial_state import initial_factory
from operators.stateful.returned import refuse_none

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")
S = TypeVar("S")


def accumulate(
    stream: Stream[T],
    fold: Callable[[S, Any], S],
    *,
    initial: S | Callable[[], S],
    pact: Pact | None = None,
    name: str = "accumulate",
) -> Stream[S]:
    """Fold the containers of each time into one result, sent when the time is complete.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def add(total, rows):
    ...     return total + sum(rows)
    >>> example(lambda scope: to_stream(scope, [1, 2, 3]).accumulate(add, initial=0).extract()).rows()
    [6]

    `fold(state, container)` returns the new state. Each worker accumulates what comes to it, and sends a result of its
    own for each time at which something came.

    `initial` is a value that cannot change, such as `0`, or a function that makes a new one, such as `list`.

    `pact` says how records come to the operator; without one they stay on their worker.
    """
    make = initial_factory(initial, name)
    by_time: dict[Time, S] = {}

    def logic(input: InputHandle, output: OutputHandle, notificator: Notificator) -> None:
        for capability, container in input:
            time = capability.time
            if time not in by_time:
                by_time[time] = make()
                notificator.notify_at(capability.retain())
            state = fold(by_time[time], container)
            if state is None:
                refuse_none(fold, make, "a container", name)
            by_time[time] = state
        for complete in notificator:
            output.session(complete).give(by_time.pop(complete.time))

    return stream.unary_notify(logic, pact=pact, name=name)
