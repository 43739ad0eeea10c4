"""A stream from logic of its own, without an input."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from framework.dataflow.capability import Capability
from framework.dataflow.handle import OutputHandle
from framework.dataflow.operator import Activator, OperatorLogic
from framework.dataflow.scope import Scope
from operators.stream import Stream

SourceLogic = Callable[[OutputHandle], None]
SourceConstructor = Callable[[Capability, Activator], SourceLogic]


def source(scope: Scope, constructor: SourceConstructor, *, name: str = "source") -> Stream[Any]:
    """Send what the logic decides to, whenever it is activated.

    >>> from framework.launch.execute import example
    >>> def countdown(capability, activator):
    ...     def logic(output):
    ...         output.session(capability).give(3 - capability.time)
    ...         if capability.time < 2:
    ...             capability.downgrade(capability.time + 1)
    ...             activator.activate()
    ...         else:
    ...             capability.drop()
    ...     return logic
    >>> example(lambda scope: source(scope, countdown).extract()).by_time()
    {0: [3], 1: [2], 2: [1]}

    `constructor(capability, activator)` receives a capability for the least time, which it must drop in the end, and
    returns the logic. That runs once at the start, and then whenever it asked for it through the activator. On a worker
    that joins a running job the stream is empty.
    """
    builder = scope.operator(name)
    output, outlet = builder.output()

    def build(capabilities: list[Capability]) -> OperatorLogic:
        [capability] = capabilities
        if not capability.held:
            return lambda: None
        builder.operator.on_shut_down.append(capability.drop)
        logic = constructor(capability, builder.activator)
        return partial(logic, output)

    builder.build(build, capabilities=True, lends=False, notify=False)
    return Stream(outlet)
