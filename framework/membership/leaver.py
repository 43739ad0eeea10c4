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

from enum import Enum, auto

from framework.membership.dataflow_state import DataflowState
from framework.membership.effects import Send
from framework.membership.members import WorkerId
from framework.membership.messages import Done, Farewell, Leaving, Released


class LeaveStep(Enum):
    """How far a leave has come."""

    RELEASING = auto()
    DRAINING = auto()
    PARTING = auto()
    GONE = auto()


class Leaver:
    """One leave, from the moment that it is granted."""

    def __init__(self, state: DataflowState, worker: WorkerId, others: tuple[WorkerId, ...]) -> None:
        self.step = LeaveStep.RELEASING
        self._state = state
        self._worker = worker
        self._others = others
        self._waiting_for = set(others)

    def begin(self) -> list[Send]:
        """Ask the others to send no more records."""
        return [Send(worker, Leaving(self._state.dataflows_built())) for worker in self._others]

    def receive(self, sender: WorkerId, message: Released | Farewell) -> list[Send]:
        """Take a member's answer."""
        if isinstance(message, Released) != (self.step is LeaveStep.RELEASING):
            return []
        self._waiting_for.discard(sender)
        if self._waiting_for:
            return []
        if self.step is LeaveStep.RELEASING:
            self.step = LeaveStep.DRAINING
        elif self.step is LeaveStep.PARTING:
            self.step = LeaveStep.GONE
            if self._others:
                return [Send(min(self._others), Done(self._worker))]
        return []

    def advance(self) -> list[Send]:
        """Say farewell once nothing is left."""
        if self.step is LeaveStep.DRAINING and self._state.quiescent():
            self.step = LeaveStep.PARTING
            self._waiting_for = set(self._others)
            return [Send(worker, Farewell()) for worker in self._others]
        return []
