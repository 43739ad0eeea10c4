"""The end of a loop, tied to its beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from framework.dataflow.pact import Pipeline
from framework.dataflow.scope import Outlet, Scope
from framework.errors import GraphError
from framework.progress.summary import Summary, results_in

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


class Loop:
    """The open end of a loop; `Stream.connect_loop` closes it."""

    def __init__(self, scope: Scope, summary: Summary | None, name: str) -> None:
        advance = scope.domain.successor if summary is None else summary
        self._name = name
        self._builder = scope.operator(name)
        self._input = input = self._builder.input(None, Pipeline())
        output, self.outlet = self._builder.output()
        self._builder.connect(input, output, [advance])
        self._connected = False

        def logic() -> None:
            for capability, container in input:
                time = results_in(advance, capability.time)
                if time is not None:
                    with capability.delayed(time) as later:
                        output.session(later).give_container(container)

        self._builder.build(lambda _: logic, notify=False)

    def connect(self, outlet: Outlet) -> None:
        """Feed the loop from `outlet`."""
        if self._connected:
            raise GraphError(f"loop {self._name!r} is connected already; put the streams together with concat() first")
        self._connected = True
        self._builder.attach(self._input, outlet, Pipeline())


def connect_loop(stream: Stream[T], loop: Loop) -> None:
    """Send what this stream carries round the loop that `feedback` opened.

    >>> from framework.launch.execute import example
    >>> from operators.core.feedback import feedback
    >>> from operators.input.to_stream import to_stream
    >>> def build(scope):
    ...     loop, again = feedback(scope)
    ...     halves = to_stream(scope, [8]).concat(again).map(lambda n: n // 2)
    ...     halves.filter(lambda n: n > 0).connect_loop(loop)
    ...     return halves.extract()
    >>> example(build).by_time()
    {0: [4], 1: [2], 2: [1], 3: [0]}
    """
    loop.connect(stream.outlet)
