"""What happens in a worker, as typed values.

One stream of events feeds every reader: log, metrics, dashboard, tests. A worker that nobody listens to pays one test
of `listening` per occasion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from framework.membership.members import Members, WorkerId
from framework.progress.location import Location
from framework.progress.order import Time


@dataclass(frozen=True, slots=True)
class DataflowBuilt:
    """A dataflow is ready to run; its first frontiers were told while it was built."""

    dataflow: int
    name: str
    operators: tuple[tuple[str, str], ...]
    """Path and name of each operator, scopes included; a path such as "0.2.1" counts from the dataflow down."""


@dataclass(frozen=True, slots=True)
class DataflowFinished:
    """A dataflow has nothing left to do on any worker, or was dropped."""

    dataflow: int


@dataclass(frozen=True, slots=True)
class OperatorScheduled:
    """An operator ran; of a scope, the records that it reports are those of all workers."""

    path: str
    duration_s: float
    consumed: int
    """Records that it took."""
    produced: int
    """Records that it sent, before they are routed."""


@dataclass(frozen=True, slots=True)
class MessageSent:
    """A container left for another worker."""

    channel: int
    peer: WorkerId
    records: int


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A container came in from another worker."""

    channel: int
    peer: WorkerId
    records: int


@dataclass(frozen=True, slots=True)
class ProgressSent:
    """An atomic batch of progress left for all workers."""

    path: str
    sequence: int
    changes: int


@dataclass(frozen=True, slots=True)
class ProgressReceived:
    """An atomic batch of progress came in, be it from this worker itself."""

    path: str
    sender: WorkerId
    sequence: int
    changes: int


@dataclass(frozen=True, slots=True)
class FrontierChanged:
    """A time entered (+1) or left (-1) the frontier of a location, in this worker's view."""

    path: str
    location: Location
    time: Time
    change: int


@dataclass(frozen=True, slots=True)
class Parked:
    """The worker slept because there was nothing to do."""

    duration_s: float


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """From now on this worker's records go to these workers."""

    members: Members


@dataclass(frozen=True, slots=True)
class JoinPhase:
    """A joiner has come through a phase of its join."""

    phase: str
    duration_s: float


Event: TypeAlias = (
    DataflowBuilt
    | DataflowFinished
    | OperatorScheduled
    | MessageSent
    | MessageReceived
    | ProgressSent
    | ProgressReceived
    | FrontierChanged
    | Parked
    | MembersChanged
    | JoinPhase
)

Reader: TypeAlias = Callable[[WorkerId, float, Event], None]
"""Called with the worker, its clock's time in seconds, and the event, in the worker's own thread."""


class Events:
    """The events of one worker, and who reads them."""

    def __init__(self, worker: WorkerId, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.listening = False
        self._worker = worker
        self._readers: list[Reader] = []

    def subscribe(self, reader: Reader) -> Callable[[], None]:
        """Call `reader` with every event from now on; returns a function that unsubscribes it."""
        self._readers.append(reader)
        self.listening = True

        def unsubscribe() -> None:
            self._readers.remove(reader)
            self.listening = bool(self._readers)

        return unsubscribe

    def emit(self, event: Event) -> None:
        """Tell every reader."""
        at_s = self.clock()
        for reader in tuple(self._readers):
            reader(self._worker, at_s, event)
