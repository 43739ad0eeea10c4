"""The server's side of a join: it lends capabilities, hands over what it knows of progress, and goes on working.

The order of things makes it safe. What is lent is announced in the server's own batches, on the links on which `Admit`
follows; so every member that has admitted the joiner has heard of its capabilities, and the joiner, which acts only
once all have, cannot give one up before it was counted. The server takes stock before it sends `Admit`; so what a
member sends to the joiner directly begins no earlier than where the stock ends, nothing is seen twice, and what lies in
between the server receives itself and passes on.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from framework.membership.context import DataflowState, LentCapability
from framework.membership.members import Address, WorkerId
from framework.membership.messages import Admit, Enlist, JoinState, Linked, Missing, Ready, Refuse, Roster, Want
from framework.wire.messages import Message, Progress

Participation = tuple[tuple[WorkerId, int, int], ...]


class JoinStage(Enum):
    """How far a join has come, as its server sees it."""

    LINKING = auto()
    LENDING = auto()
    ADMITTED = auto()
    ENLISTING = auto()


class BootstrapServer:
    """One join, from the moment that it is granted."""

    def __init__(
        self,
        stock: DataflowState,
        send: Callable[[WorkerId, Message], None],
        joiner: WorkerId,
        address: Address,
        roster: Roster,
    ) -> None:
        self.joiner = joiner
        self.address = address
        self.stage = JoinStage.LINKING
        self.lent: tuple[LentCapability, ...] = ()
        self._stock = stock
        self._send = send
        self._members = tuple(worker for worker, _ in roster.members)
        self._recorded: dict[tuple[int, WorkerId], dict[int, Progress]] = {}
        self._wanted: list[tuple[int, WorkerId, int]] = []
        self._not_enlisted: set[WorkerId] = {*self._members, joiner}
        send(joiner, roster)

    @property
    def complete(self) -> bool:
        """Whether every member's records may go to the joiner."""
        return self.stage is JoinStage.ENLISTING and not self._not_enlisted

    def receive(self, message: Linked | Want | Ready) -> None:
        """Take a message of the joiner's."""
        match message:
            case Linked() if self.stage is JoinStage.LINKING:
                self.stage = JoinStage.LENDING
                self.lent = self._stock.lend()
            case Want(ranges) if self.stage is JoinStage.ADMITTED:
                self._wanted += [
                    (channel, sender, sequence)
                    for channel, sender, start, stop in ranges
                    for sequence in range(start, stop)
                ]
                self._pass_on()
            case Ready() if self.stage is JoinStage.ADMITTED and not self._wanted:
                self.stage = JoinStage.ENLISTING
                self._recorded.clear()
                for worker in self._members:
                    self._send(worker, Enlist(self.joiner))
                self._send(self.joiner, Enlist(self.joiner))

    def lent_is_told(self, participation: Participation) -> None:
        """The batches that announce what was lent are on their way: admit the joiner and hand over what is known."""
        assert self.stage is JoinStage.LENDING, self.stage
        self.stage = JoinStage.ADMITTED
        stock = self._stock
        for sender, batch in stock.unheard():
            self.record(sender, batch)
        scopes = stock.scope_states()
        built = stock.dataflows_built()
        next_out = stock.next_out()
        for worker in self._members:
            self._send(worker, Admit(self.joiner, self.address, built))
        for scope in scopes:
            self._send(self.joiner, scope)
        for (channel, sender), batches in self._recorded.items():
            if sender not in self._members:  # it has left since; nobody else can tell the joiner
                for batch in batches.values():
                    self._send(self.joiner, Missing(channel, sender, batch.sequence, batch.changes))
        self._send(
            self.joiner,
            JoinState(built, stock.channels_built(), stock.fingerprints(), next_out, self.lent, participation),
        )

    def record(self, sender: WorkerId, batch: Progress) -> None:
        """Keep a batch that came in: the joiner may lack it."""
        if self.stage is JoinStage.ADMITTED:
            self._recorded.setdefault((batch.channel, sender), {})[batch.sequence] = batch
            if self._wanted:
                self._pass_on()

    def enlisted(self, member: WorkerId) -> None:
        """A member's records may go to the joiner."""
        self._not_enlisted.discard(member)

    def give_up(self, reason: str) -> None:
        """The joiner is gone, or takes too long."""
        assert self.stage is not JoinStage.ENLISTING, "a joiner that is enlisted is a member"
        self._stock.take_back(self.lent)
        self._send(self.joiner, Refuse(reason))

    def _pass_on(self) -> None:
        waiting = []
        for channel, sender, sequence in self._wanted:
            batch = self._recorded.get((channel, sender), {}).get(sequence)
            if batch is None:
                waiting.append((channel, sender, sequence))
            else:
                self._send(self.joiner, Missing(channel, sender, sequence, batch.changes))
        self._wanted = waiting
