"""One input, one output, and logic that sees whole containers."""

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

UnaryLogic = Callable[[InputHandle, OutputHandle], None]
UnaryFrontierConstructor = Callable[[Capability, Activator], UnaryLogic]
UnaryNotifyLogic = Callable[[InputHandle, OutputHandle, Notificator], None]


def unary(
    stream: Stream[T],
    logic: UnaryLogic,
    *,
    pact: Pact | None = None,
    name: str = "unary",
) -> Stream[Any]:
    """Answer containers with containers, without regard to frontiers.

    >>> def double(input, output):
    ...     for capability, rows in input:
    ...         output.session(capability).give_container([2 * row for row in rows])
    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, [1, 2]).unary(double).extract()).rows()
    [2, 4]

    `pact` says how records come to the operator; without one they stay on their worker.
    """
    builder = stream.scope.operator(name)
    input = builder.input(stream.outlet, pact or Pipeline())
    output, outlet = builder.output()
    builder.build(lambda _: partial(logic, input, output), notify=False)
    return type(stream)(outlet)


def unary_frontier(
    stream: Stream[T],
    constructor: UnaryFrontierConstructor,
    *,
    pact: Pact | None = None,
    name: str = "unary_frontier",
) -> Stream[Any]:
    """Like `unary`, for logic that waits for frontiers or sends unasked.

    >>> def greet_once(capability, activator):
    ...     with capability:
    ...         greeting = capability.clone()
    ...     def logic(input, output):
    ...         if greeting.held:
    ...             output.session(greeting).give("hello")
    ...             greeting.drop()
    ...         for capability, rows in input:
    ...             output.session(capability).give_container(rows)
    ...     return logic
    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, ["world"]).unary_frontier(greet_once).extract()).rows()
    ['hello', 'world']

    `constructor(capability, activator)` receives a capability for the least time, to keep, downgrade or drop, and
    returns the logic, which reads `input.frontier` and runs whenever that changes. On a worker that joins a running job
    the capability is dropped already (`capability.held` tells).
    """
    builder = stream.scope.operator(name)
    input = builder.input(stream.outlet, pact or Pipeline())
    output, outlet = builder.output()

    def build(capabilities: list[Capability]) -> OperatorLogic:
        logic = constructor(capabilities[0], builder.activator)
        return partial(logic, input, output)

    builder.build(build, capabilities=True, lends=False)
    return type(stream)(outlet)


def unary_notify(
    stream: Stream[T],
    logic: UnaryNotifyLogic,
    *,
    notify_at: Iterable[Time] = (),
    pact: Pact | None = None,
    name: str = "unary_notify",
) -> Stream[Any]:
    """Like `unary`, for logic that asks to be told when a time is complete.

    >>> def largest(input, output, notificator):
    ...     for capability, rows in input:
    ...         seen.setdefault(capability.time, []).extend(rows)
    ...         notificator.notify_at(capability.retain())
    ...     for capability in notificator:
    ...         output.session(capability).give(max(seen.pop(capability.time)))
    >>> seen = {}
    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, [3, 5, 4]).unary_notify(largest).extract()).rows()
    [5]

    `notify_at` lists times to be told of in any case, whether or not a record comes at them.
    """
    builder = stream.scope.operator(name)
    input = builder.input(stream.outlet, pact or Pipeline())
    output, outlet = builder.output()
    notificator = Notificator(builder.operator, [input.frontier])
    times = list(notify_at)

    def build(capabilities: list[Capability]) -> OperatorLogic:
        for capability in capabilities:
            with capability:
                for time in times if capability.held else ():
                    notificator.notify_at(capability.delayed(time))
        return partial(logic, input, output, notificator)

    builder.build(build, capabilities=bool(times), lends=False)
    return type(stream)(outlet)
