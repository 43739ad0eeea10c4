"""The leaver's side of a leave: records stop coming, what is left drains, and everybody hears the last of it.

::

    leaver                          each member
      | Leaving                  -->  |   sends it no more records
      |  <--                Released  |
      |  (until nothing is left: no record, no capability, nothing untold)
      | Farewell                 -->  |   sends it no more progress
      |  <--                Farewell  |
      | Done (to the coordinator), Goodbye

Inputs are closed, and bins have moved away, before it begins.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from framework.membership.context import DataflowState
from framework.membership.members import WorkerId
from framework.membership.messages import Done, Farewell, Leaving, Released
from framework.wire.messages import Message


class LeaveStep(Enum):
    """How far a leave has come."""

    RELEASING = auto()
    DRAINING = auto()
    PARTING = auto()
    GONE = auto()


class Leaver:
    """One leave, from the moment that it is granted."""

    def __init__(
        self,
        stock: DataflowState,
        send: Callable[[WorkerId, Message], None],
        worker: WorkerId,
        others: tuple[WorkerId, ...],
    ) -> None:
        self.step = LeaveStep.RELEASING
        self._stock = stock
        self._send = send
        self._worker = worker
        self._others = others
        self._waiting_for = set(others)
        for worker in others:
            send(worker, Leaving(stock.dataflows_built()))

    def receive(self, sender: WorkerId, message: Released | Farewell) -> None:
        """Take a member's answer."""
        if isinstance(message, Released) == (self.step is LeaveStep.RELEASING):
            self._answered(sender)

    def _answered(self, peer: WorkerId) -> None:
        self._waiting_for.discard(peer)
        if self._waiting_for:
            return
        if self.step is LeaveStep.RELEASING:
            self.step = LeaveStep.DRAINING
        elif self.step is LeaveStep.PARTING:
            self.step = LeaveStep.GONE
            if self._others:
                self._send(min(self._others), Done(self._worker))

    def go_on(self) -> None:
        """Say farewell once nothing is left."""
        if self.step is LeaveStep.DRAINING and self._stock.quiescent():
            self.step = LeaveStep.PARTING
            self._waiting_for = set(self._others)
            for worker in self._others:
                self._send(worker, Farewell())
