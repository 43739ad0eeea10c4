"""Two inputs, one output, and logic that sees whole containers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from framework.dataflow.capability import Capability
from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.notificator import Notificator
from framework.dataflow.operator import Activator, OperatorLogic
from framework.dataflow.pact import Pact, Pipeline
from framework.progress.order import Time

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")
U = TypeVar("U")

BinaryLogic = Callable[[InputHandle, InputHandle, OutputHandle], None]
BinaryFrontierConstructor = Callable[[Capability, Activator], BinaryLogic]
BinaryNotifyLogic = Callable[[InputHandle, InputHandle, OutputHandle, Notificator], None]


def binary(
    stream: Stream[T],
    other: Stream[U],
    logic: BinaryLogic,
    *,
    pact: Pact | None = None,
    other_pact: Pact | None = None,
    name: str = "binary",
) -> Stream[Any]:
    """Answer containers of two streams with containers, without regard to frontiers.

    >>> def tag(left, right, output):
    ...     for side, input in ("left", left), ("right", right):
    ...         for capability, rows in input:
    ...             output.session(capability).give_container([(side, row) for row in rows])
    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, [1]).binary(to_stream(scope, [2]), tag).extract()).rows()
    [('left', 1), ('right', 2)]

    `pact` and `other_pact` say how records come to the operator; without one they stay on their worker.
    """
    builder = stream.scope.operator(name)
    left = builder.input(stream.outlet, pact or Pipeline())
    right = builder.input(other.outlet, other_pact or Pipeline())
    output, outlet = builder.output()
    builder.build(lambda _: partial(logic, left, right, output), notify=False)
    return type(stream)(outlet)


def binary_frontier(
    stream: Stream[T],
    other: Stream[U],
    constructor: BinaryFrontierConstructor,
    *,
    pact: Pact | None = None,
    other_pact: Pact | None = None,
    name: str = "binary_frontier",
) -> Stream[Any]:
    """Like `binary`, for logic that waits for frontiers or sends unasked.

    >>> def gate(capability, activator):
    ...     capability.drop()
    ...     held = []
    ...     def logic(left, right, output):
    ...         for capability, rows in left:
    ...             held.append((capability.retain(), rows))
    ...         for _ in right:
    ...             pass
    ...         if not right.frontier.frontier():
    ...             for kept, rows in held:
    ...                 with kept:
    ...                     output.session(kept).give_container(rows)
    ...             held.clear()
    ...     return logic
    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, [1]).binary_frontier(to_stream(scope, "go"), gate).extract()).rows()
    [1]

    `constructor(capability, activator)` receives a capability for the least time, to keep, downgrade or drop, and
    returns the logic, which reads the frontiers of both inputs and runs whenever one of them changes. On a worker that
    joins a running job the capability is dropped already (`capability.held` tells).
    """
    builder = stream.scope.operator(name)
    left = builder.input(stream.outlet, pact or Pipeline())
    right = builder.input(other.outlet, other_pact or Pipeline())
    output, outlet = builder.output()

    def build(capabilities: list[Capability]) -> OperatorLogic:
        logic = constructor(capabilities[0], builder.activator)
        return partial(logic, left, right, output)

    builder.build(build, capabilities=True, lends=False)
    return type(stream)(outlet)


def binary_notify(
    stream: Stream[T],
    other: Stream[U],
    logic: BinaryNotifyLogic,
    *,
    notify_at: Iterable[Time] = (),
    pact: Pact | None = None,
    other_pact: Pact | None = None,
    name: str = "binary_notify",
) -> Stream[Any]:
    """Like `binary`, for logic that asks to be told when a time is complete at both inputs.

    >>> def total(left, right, output, notificator):
    ...     for input in (left, right):
    ...         for capability, rows in input:
    ...             sums[capability.time] = sums.get(capability.time, 0) + sum(rows)
    ...             notificator.notify_at(capability.retain())
    ...     for capability in notificator:
    ...         output.session(capability).give(sums.pop(capability.time))
    >>> sums = {}
    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, [1, 2]).binary_notify(to_stream(scope, [3]), total).extract()).rows()
    [6]

    `notify_at` lists times to be told of in any case, whether or not a record comes at them.
    """
    builder = stream.scope.operator(name)
    left = builder.input(stream.outlet, pact or Pipeline())
    right = builder.input(other.outlet, other_pact or Pipeline())
    output, outlet = builder.output()
    notificator = Notificator(builder.operator, [left.frontier, right.frontier])
    times = list(notify_at)

    def build(capabilities: list[Capability]) -> OperatorLogic:
        for capability in capabilities:
            with capability:
                for time in times if capability.held else ():
                    notificator.notify_at(capability.delayed(time))
        return partial(logic, left, right, output, notificator)

    builder.build(build, capabilities=bool(times), lends=False)
    return type(stream)(outlet)
