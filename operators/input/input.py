"""Feed a stream from outside the dataflow."""

from __future__ import annotations

from typing import Generic, TypeVar

from framework.dataflow.capability import Capability
from framework.dataflow.handle import ROWS_PER_CONTAINER, OutputHandle
from framework.dataflow.operator import OperatorLogic
from framework.dataflow.scope import Scope
from framework.errors import GraphError, InputClosed, TimeWentBackwards
from framework.progress.domain import Domain
from framework.wire.container import Container
from operators.stream import Stream

T = TypeVar("T")


class Input(Generic[T]):
    """A handle to send records with, at an epoch that only moves forward.

    >>> from framework.launch.execute import execute
    >>> def main(worker):
    ...     lines = Input[str]("lines")
    ...     with worker.dataflow() as scope:
    ...         result = lines.stream(scope).extract()
    ...     lines.send("to be")
    ...     lines.advance_to(1)
    ...     lines.send("or not")
    ...     return result
    >>> [result] = execute(main)
    >>> result.by_time()
    {0: ['to be'], 1: ['or not']}

    There is back-pressure: once enough has been sent, `send` steps the worker, and while a peer is behind it waits for
    it. When the program ends, the input is closed. On a worker that joins a running job it begins
    where that of the worker that let it in is, or closed if that one is.
    """

    def __init__(self, name: str = "input") -> None:
        self._name = name
        self._feed: Feed | None = None
        self._capability: Capability | None = None
        self._rows: list[T] = []
        self.records = 0
        """How many were sent."""
        self.epochs = 0
        """In how many epochs."""
        self._sent_at: object = None

    def stream(self, scope: Scope) -> Stream[T]:
        """The stream of what is sent, in `scope`."""
        if self._feed is not None:
            raise GraphError(f"input {self._name!r} feeds a stream already; use one Input per stream")
        if scope.domain.depth:
            raise GraphError(
                f"input {self._name!r} counts epochs and cannot feed {scope.name!r}, whose times count iterations too; "
                f"feed the dataflow's outermost scope, and bring the stream in with enter()"
            )
        builder = scope.operator(self._name)
        output, outlet = builder.output()
        self._feed = Feed(scope, output, self._name)

        def build(capabilities: list[Capability]) -> OperatorLogic:
            [capability] = capabilities
            self._capability = capability if capability.held else None
            return lambda: None

        builder.build(build, capabilities=True, notify=False)
        builder.operator.on_shut_down.append(self._abandon)
        scope.worker.on_finish(self.close)
        return Stream(outlet)

    @property
    def time(self) -> int:
        """The epoch that records are sent at."""
        time = self._open().time
        assert isinstance(time, int), time
        return time

    @property
    def closed(self) -> bool:
        """Whether nothing more can be sent."""
        return self._feed is not None and self._capability is None

    def send(self, record: T) -> None:
        """Send one record at the current epoch."""
        self._open()
        self._rows.append(record)
        if len(self._rows) >= ROWS_PER_CONTAINER:
            self.flush()

    def send_batch(self, rows: list[T]) -> None:
        """Send many records at once; the list must not be changed afterwards."""
        self.send_container(rows)

    def send_container(self, container: Container) -> None:
        """Send a container as it is: a list of records, or an Arrow batch for a stream of columns."""
        self.flush()
        self._push(container)

    def advance_to(self, epoch: int) -> None:
        """Promise not to send before `epoch` again."""
        capability = self._open()
        Domain().check_time(epoch)
        if not capability.time <= epoch:  # type: ignore[operator]
            raise TimeWentBackwards(
                f"input {self._name!r} is at epoch {capability.time} and cannot go back to {epoch}; "
                f"advance_to takes the same epoch or a later one"
            )
        self.flush()
        capability.downgrade(epoch)

    def flush(self) -> None:
        """Hand over what was sent so far."""
        if self._rows:
            rows, self._rows = self._rows, []
            self._push(rows)

    def close(self) -> None:
        """Promise to send nothing more."""
        if self._capability is not None:
            self.flush()
            self._capability.drop()
            self._capability = None

    def _abandon(self) -> None:
        self._rows.clear()
        self.close()

    def _push(self, container: Container) -> None:
        capability = self._open()
        assert self._feed is not None
        self.records += len(container)
        if capability.time != self._sent_at:
            self._sent_at = capability.time
            self.epochs += 1
        self._feed.push(capability, container)

    def _open(self) -> Capability:
        if self._capability is None:
            if self._feed is None:
                raise GraphError(f"input {self._name!r} feeds no stream yet; call .stream(scope) in the dataflow first")
            raise InputClosed(f"input {self._name!r} is closed; send before close() and before the program returns")
        return self._capability


class Feed:
    """What inputs share: an output that the program sends to, no faster than the dataflow takes it.

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
            worker.flush()
            worker.step()
            while worker.congested():
                worker.step_or_park()
