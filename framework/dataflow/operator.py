"""An operator with logic of its own, as its scope schedules it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from framework.dataflow.handle import InputHandle, OutputHandle
from framework.errors import OperatorFailed
from framework.membership.members import WorkerId
from framework.progress.antichain import mutable_antichain
from framework.progress.domain import Domain
from framework.progress.graph import Connectivity
from framework.progress.order import Time
from framework.progress.shared import SharedProgress

OperatorLogic = Callable[[], bool | None]
"""Called when there is something to do; true if work remains that no capability stands for."""


@dataclass(frozen=True, slots=True)
class Activator:
    """How an operator asks to be scheduled."""

    activate: Callable[[], None]
    """In the worker's own thread."""
    activate_from_thread: Callable[[], None]
    """In any thread; wakes a parked worker."""
    activate_after: Callable[[float], None]
    """In the worker's own thread: after this number of seconds."""
    activate_when_clear: Callable[[], None]
    """In the worker's own thread: once links are no longer congested."""


class BuiltOperator:
    """Inputs, outputs and logic, tied to a `SharedProgress`."""

    local = True

    def __init__(self, name: str, path: str, worker: WorkerId, domain: Domain, activator: Activator) -> None:
        self.name = name
        self.domain = domain
        self.path = path
        self.activator = activator
        self.activate = activator.activate
        self.shared = SharedProgress.empty(0, 0)
        self.connection: Connectivity = []
        self.initial: list[list[tuple[Time, int]]] = []
        self.lends = False
        """Whether its counterpart on a joiner begins with a clone of what it holds."""
        self.notify = True
        self.running = False
        self.live = False
        """From when it is built to when it is shut down."""
        self.time: Time | None = None
        """The time of the message or notification at hand, for reports."""
        self.inputs: list[InputHandle] = []
        self.outputs: list[OutputHandle] = []
        self.logic: OperatorLogic = lambda: None
        self.on_shut_down: list[Callable[[], None]] = []
        self._worker = worker
        self._released: deque[tuple[OutputHandle, Time]] = deque()

    def add_input(self) -> InputHandle:
        """One more input port; its frontier starts at the least time."""
        fresh = SharedProgress.empty(1, 0)
        self.shared.frontiers += fresh.frontiers
        self.shared.consumed += fresh.consumed
        frontier = mutable_antichain(self.domain)
        frontier.update(self.domain.minimum, 1)
        handle = InputHandle(self, len(self.inputs), frontier)
        self.inputs.append(handle)
        return handle

    def add_output(self) -> OutputHandle:
        """One more output port."""
        fresh = SharedProgress.empty(0, 1)
        self.shared.internal += fresh.internal
        self.shared.produced += fresh.produced
        handle = OutputHandle(self, len(self.outputs))
        self.outputs.append(handle)
        return handle

    def schedule(self) -> bool:
        """Bring the frontiers up to date, run the logic, flush what it buffered."""
        for handle, changes in zip(self.inputs, self.shared.frontiers, strict=True):
            if changes:
                for time, change in changes.drain():
                    handle.frontier.update(time, change)
        self.running = True
        try:
            while self._released:
                output, time = self._released.popleft()
                output.change_capability(time, -1)
            incomplete = bool(self.logic())
            for output in self.outputs:
                output.flush()
        except Exception as error:
            if isinstance(error, OperatorFailed):
                raise
            raise self.failure(self.time) from error
        finally:
            self.running = False
            self.time = None
            for handle in self.inputs:
                handle.end_activation()
            for output in self.outputs:
                output.end_activation()
        return incomplete

    def failure(self, time: Time | None) -> OperatorFailed:
        """The error that says that it failed at `time`."""
        return OperatorFailed(operator=self.name, path=self.path, worker=self._worker, time=time)

    def release_later(self, output: OutputHandle, time: Time) -> None:
        """Give a capability back in the worker's own thread."""
        self._released.append((output, time))
        self.activator.activate_from_thread()

    def released(self) -> list[tuple[OutputHandle, Time]]:
        """Capabilities that were left to the garbage collector and are not given back yet."""
        return list(self._released)

    def shut_down(self) -> None:
        """Drop queued messages and whatever the logic holds."""
        self.live = False
        for handle in self.inputs:
            handle.shut_down()
        for callback in self.on_shut_down:
            callback()
        self.logic = lambda: None
