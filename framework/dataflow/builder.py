"""Puts an operator together: inputs with pacts, outputs, what may lead from where to where, and the logic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from framework.dataflow.capability import Capability
from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.operator import Activator, BuiltOperator, OperatorLogic
from framework.dataflow.pact import Pact
from framework.errors import GraphError
from framework.progress.antichain import Antichain
from framework.progress.location import Source, Target
from framework.progress.summary import Summary

if TYPE_CHECKING:
    from framework.dataflow.scope import Outlet, Scope

Constructor = Callable[[list[Capability]], OperatorLogic]
"""Receives one capability per output at the least time, and returns the logic."""


class OperatorBuilder:
    """Any number of inputs and outputs.

    By default a record at any input may result in records at any output at the same time or later; `connect` says
    otherwise.
    """

    def __init__(self, scope: Scope, name: str) -> None:
        self.scope = scope
        self.index = scope.reserve(name)
        self._operator = BuiltOperator(
            name, scope.path_of(self.index), scope.worker.id, scope.domain, scope.activator_of(self.index)
        )
        self._connection: dict[tuple[int, int], Antichain[Summary]] = {}
        self._built = False

    @property
    def operator(self) -> BuiltOperator:
        """What is being built; for notificators and activation."""
        return self._operator

    @property
    def activator(self) -> Activator:
        """How the logic asks to be scheduled."""
        return self._operator.activator

    def input(self, outlet: Outlet | None, pact: Pact) -> InputHandle:
        """Add an input fed by `outlet`; without one, `attach` feeds it later, as loops need."""
        handle = self._operator.add_input()
        if outlet is not None:
            self.attach(handle, outlet, pact)
        return handle

    def attach(self, handle: InputHandle, outlet: Outlet, pact: Pact) -> None:
        """Feed an input from `outlet`."""
        self.scope.connect(outlet, Target(self.index, self._operator.inputs.index(handle)), handle, pact)

    def output(self) -> tuple[OutputHandle, Outlet]:
        """Add an output: the handle for the logic, and the outlet for those who connect to it."""
        handle = self._operator.add_output()
        source = Source(self.index, len(self._operator.outputs) - 1)
        return handle, self.scope.outlet(source, handle.pushers)

    def connect(self, input: InputHandle, output: OutputHandle, summaries: Iterable[Summary]) -> None:
        """Say what happens to times between an input and an output; no summaries means no path."""
        summaries = tuple(summaries)
        for summary in summaries:
            self.scope.domain.check_summary(summary)
        key = self._operator.inputs.index(input), self._operator.outputs.index(output)
        self._connection[key] = Antichain(summaries)

    def build(
        self, constructor: Constructor, *, capabilities: bool = False, lends: bool = True, notify: bool = True
    ) -> None:
        """Finish the operator.

        `capabilities` asks for the right to send from the least time on without having received anything; who asks
        must downgrade or drop them. On a worker that joins a running job they are clones of what its server holds at
        that output, or dropped already if that is nothing, or with `lends=False`. `notify=False` is for logic that
        ignores frontiers.
        """
        if self._built:
            raise GraphError(f"operator {self._operator.name!r} is already built")
        self._built = True
        operator, identity = self._operator, Antichain([self.scope.domain.identity])
        operator.connection = [
            [self._connection.get((i, o), identity) for o in range(len(operator.outputs))]
            for i in range(len(operator.inputs))
        ]
        operator.notify = notify
        operator.running = True  # the scope activates it once it is adopted
        operator.lends = capabilities and lends
        granted = [self._grant(port, output) for port, output in enumerate(operator.outputs)] if capabilities else []
        for internal in operator.shared.internal:
            internal.drain()  # common knowledge, or announced by the server of a join
        minimum = self.scope.domain.minimum
        operator.initial = [[(minimum, 1)] if capabilities else [] for _ in operator.outputs]
        operator.logic = constructor(granted)
        operator.running = False
        operator.live = True
        self.scope.add(self.index, operator)

    def _grant(self, port: int, output: OutputHandle) -> Capability:
        minimum = self.scope.domain.minimum
        time = self.scope.worker.inheritance.initial_time(self.operator.path, port, minimum)
        capability = Capability(minimum if time is None else time, output)
        if time is None:
            capability.drop()
        return capability
