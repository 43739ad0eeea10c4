"""One edge of the dataflow graph, as the pact that routes its records sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.dataflow.handle import InputHandle
from framework.errors import GraphError
from framework.events import MessageSent
from framework.membership.members import Members, WorkerId
from framework.progress.order import Time
from framework.wire.container import Container, Reservation
from framework.wire.messages import Data

if TYPE_CHECKING:
    from framework.worker.stepper import Stepper


class WorkerChannel:
    """One edge of the dataflow graph on one worker."""

    __slots__ = ("_number", "_owner", "_receiver", "_where", "deliver")

    def __init__(self, owner: Stepper, number: int, handle: InputHandle, sender: str) -> None:
        self._owner = owner
        self._number = number
        self._where = f"operator {sender!r}"
        self._receiver = handle.operator_name
        self.deliver = handle.push

    @property
    def worker(self) -> WorkerId:
        """This worker."""
        return self._owner.id

    def members(self) -> Members:
        """All workers, as of now."""
        return self._owner.members

    def founders(self) -> tuple[WorkerId, ...]:
        """The workers that the job began with."""
        self._owner.dataflows.fixed_operators.add(self._receiver)
        return self._owner.membership.founders

    def reserve(self, peer: WorkerId, size: int) -> Reservation | None:
        """Memory of another worker for a container whose buffers take `size` bytes, if that saves a copy."""
        return self._owner.transport.reserve(peer, size)

    def send(self, peer: WorkerId, time: Time, container: Container, reservation: Reservation | None = None) -> None:
        """Hand a container to the receiver on another worker."""
        owner = self._owner
        if owner.membership.joining:
            raise GraphError(f"worker {owner.id} has not joined yet; call worker.bootstrap() before it sends records")
        owner.transport.send(peer, Data(self._number, time, container), self._where, reservation)
        if owner.events.listening:
            owner.events.emit(MessageSent(self._number, peer, len(container)))
