"""One edge of the dataflow graph, as the pact that routes its records sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.dataflow.handle import InputHandle
from framework.dataflow.pact import Pact
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

    __slots__ = ("_copies", "_owner", "_receiver", "deliver", "failure", "number", "push", "sender")

    def __init__(self, owner: Stepper, number: int, handle: InputHandle, sender: str, pact: Pact) -> None:
        self.number = number
        self.sender = f"operator {sender!r}"
        self._owner = owner
        self._receiver = handle
        self._copies = pact.to_all
        self.deliver = handle.push
        self.failure = handle.failure
        self.push = pact.pusher(self)
        """Route a container."""

    @property
    def worker(self) -> WorkerId:
        """This worker."""
        return self._owner.id

    def members(self) -> Members:
        """All workers, as of now."""
        return self._owner.members

    def founders(self) -> tuple[WorkerId, ...]:
        """The workers that the job began with."""
        self._owner.dataflows.fixed_operators.add(self._receiver.operator_name)
        return self._owner.membership.founders

    def reserve(self, peer: WorkerId, size: int) -> Reservation | None:
        """Memory of another worker for a container whose buffers take `size` bytes, if that saves a copy."""
        owner = self._owner
        return None if peer == owner.held.joiner else owner.transport.reserve(peer, size)

    def send(self, peer: WorkerId, time: Time, container: Container, reservation: Reservation | None = None) -> None:
        """Hand a container to the receiver on another worker."""
        owner = self._owner
        if owner.membership.joining:
            raise GraphError(f"worker {owner.id} has not joined yet; call worker.bootstrap() before it sends records")
        if peer == owner.held.joiner:
            owner.held.put(self, time, container)
            return
        owner.transport.send(peer, Data(self.number, time, container), self.sender, reservation)
        if owner.events.listening:
            owner.events.emit(MessageSent(self.number, peer, len(container)))

    def reroute(self, time: Time, container: Container) -> None:
        """Route a container that was sent to a member which is none any more; of one that all get, drop the copy."""
        if self._copies:
            self._receiver.discard(time, len(container))
        else:
            self.push(time, container)
