"""What inputs do alike: hand containers to a dataflow from outside, no faster than it takes them."""

from __future__ import annotations

from framework.dataflow.capability import Capability
from framework.dataflow.handle import ROWS_PER_CONTAINER, OutputHandle
from framework.dataflow.scope import Scope
from framework.errors import GraphError
from framework.wire.container import Container


class Feed:
    """An output that the program sends to.

    Once a container's worth was sent since the worker's last step, sending steps the worker, and while a peer is behind
    it waits for it. Within a step, as when an operator's own function sends, it does neither.
    """

    def __init__(self, scope: Scope, output: OutputHandle, name: str) -> None:
        self._scope = scope
        self._output = output
        self._name = name
        self._sent = 0
        self._sent_since_step = scope.worker.steps

    def push(self, capability: Capability, container: Container) -> None:
        """Send a container at the time of `capability`; return when more may be sent."""
        if not self._scope.complete:
            raise GraphError(
                f"input {self._name!r} was sent records while its dataflow was being built, and not all of it would "
                f"see them; send after the `with` block"
            )
        self._output.session(capability).give_container(container)
        worker = self._scope.worker
        if worker.steps != self._sent_since_step:
            self._sent, self._sent_since_step = 0, worker.steps
        self._sent += len(container)
        if self._sent >= ROWS_PER_CONTAINER and not worker.stepping:
            worker.step()
            while worker.congested():
                worker.step_or_park()
