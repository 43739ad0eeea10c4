"""The server's side of a join: it lends capabilities, hands over what it knows of progress, and goes on working.

The order of things makes it safe. What is lent is announced in the server's own batches, on the links on which `Admit`
follows; so every member that has admitted the joiner has heard of its capabilities, and the joiner, which acts only
once all have, cannot give one up before it was counted. The server takes its state before it sends `Admit`; so what a
member sends to the joiner directly begins no earlier than where that state ends, nothing is seen twice, and what lies
in between the server receives itself and passes on.
"""

from __future__ import annotations

from enum import Enum, auto

from framework.membership.dataflow_state import DataflowState, LentCapability
from framework.membership.effects import Send
from framework.membership.members import Address, WorkerId
from framework.membership.messages import Admit, Enlist, JoinState, Linked, Missing, Ready, Refuse, Roster, Want
from framework.wire.messages import Progress

Participation = tuple[tuple[WorkerId, int, int], ...]
"""By worker, the first dataflow that it starts with everybody else, and the first that it no longer does."""


class JoinStage(Enum):
    """How far a join has come, as its server sees it."""

    LINKING = auto()
    LENDING = auto()
    ADMITTED = auto()
    ENLISTING = auto()


class BootstrapServer:
    """One join, from the moment that it is granted."""

    def __init__(self, state: DataflowState, joiner: WorkerId, address: Address, roster: Roster) -> None:
        self.joiner = joiner
        self.address = address
        self.stage = JoinStage.LINKING
        self.lent: tuple[LentCapability, ...] = ()
        self._state = state
        self._roster = roster
        self._members = tuple(worker for worker, _ in roster.members)
        self._recorded: dict[tuple[int, WorkerId], dict[int, Progress]] = {}
        self._wanted: list[tuple[int, WorkerId, int]] = []
        self._not_enlisted: set[WorkerId] = {*self._members, joiner}

    @property
    def complete(self) -> bool:
        """Whether all members count the joiner among them, and it has said that it is still there."""
        return self.stage is JoinStage.ENLISTING and not self._not_enlisted

    def begin(self) -> list[Send]:
        """Tell the joiner whom to link up with."""
        return [Send(self.joiner, self._roster)]

    def receive(self, message: Linked | Want | Ready) -> list[Send]:
        """Take a message of the joiner's."""
        match message:
            case Linked() if self.stage is JoinStage.LINKING:
                self.stage = JoinStage.LENDING
                self.lent = self._state.lend()
            case Want(ranges) if self.stage is JoinStage.ADMITTED:
                self._wanted += [
                    (channel, sender, sequence)
                    for channel, sender, start, stop in ranges
                    for sequence in range(start, stop)
                ]
                return self._pass_on()
            case Ready() if self.stage is JoinStage.ADMITTED and not self._wanted:
                self.stage = JoinStage.ENLISTING
                self._recorded.clear()
                return [Send(worker, Enlist(self.joiner)) for worker in self._members]
        return []

    def lent_is_told(self, participation: Participation) -> list[Send]:
        """The batches that announce what was lent are on their way: admit the joiner and hand over what is known."""
        assert self.stage is JoinStage.LENDING, self.stage
        self.stage = JoinStage.ADMITTED
        state = self._state
        for sender, batch in state.unheard():
            self.record(sender, batch)
        built = state.dataflows_built()
        effects = [Send(worker, Admit(self.joiner, self.address, built)) for worker in self._members]
        effects += [Send(self.joiner, scope) for scope in state.scope_states()]
        for (channel, sender), batches in self._recorded.items():
            if sender not in self._members:  # it has left since; nobody else can tell the joiner
                effects += [
                    Send(self.joiner, Missing(channel, sender, batch.sequence, batch.changes))
                    for batch in batches.values()
                ]
        told = JoinState(
            built, state.channels_built(), state.fingerprints(), state.next_out(), self.lent, participation
        )
        return [*effects, Send(self.joiner, told)]

    def record(self, sender: WorkerId, batch: Progress) -> list[Send]:
        """Keep a batch that came in: the joiner may lack it."""
        if self.stage is JoinStage.ADMITTED:
            self._recorded.setdefault((batch.channel, sender), {})[batch.sequence] = batch
            if self._wanted:
                return self._pass_on()
        return []

    def enlisted(self, worker: WorkerId) -> list[Send]:
        """A member counts the joiner among them; or, once all do, the joiner is still there."""
        self._not_enlisted.discard(worker)
        if self._not_enlisted == {self.joiner}:
            return [Send(self.joiner, Enlist(self.joiner))]
        return []

    def give_up(self, reason: str) -> list[Send]:
        """The joiner is gone, or takes too long."""
        self._state.take_back(self.lent)
        return [Send(self.joiner, Refuse(reason))]

    def _pass_on(self) -> list[Send]:
        waiting, passed_on = [], []
        for channel, sender, sequence in self._wanted:
            batch = self._recorded.get((channel, sender), {}).get(sequence)
            if batch is None:
                waiting.append((channel, sender, sequence))
            else:
                passed_on.append(Send(self.joiner, Missing(channel, sender, sequence, batch.changes)))
        self._wanted = waiting
        return passed_on
