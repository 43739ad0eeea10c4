"""The joiner's side of a join: from the first word to its server to the moment from which on it is a member.

It gathers the server's state of progress, from each member the number of the next batch that will come directly, and
from the server the batches in between. Then the program builds its dataflows on that, and with `ready` the joiner asks
to be enlisted. Until it has joined, it sends nothing to anybody but its server: were it to die, nothing would be lost.
"""

from __future__ import annotations

from framework.errors import PeerRefused, ProtocolError
from framework.membership.effects import Effect, EnterPhase, Log, Phase, Reach, Send
from framework.membership.inheritance import Inheritance
from framework.membership.members import Address, Members, WorkerId
from framework.membership.messages import (
    Enlist,
    Enlisted,
    First,
    Join,
    Joined,
    JoinState,
    Linked,
    Missing,
    Queued,
    Ready,
    Refuse,
    Roster,
    ScopeState,
    Settled,
    Want,
)
from framework.wire.messages import Message, Progress


class Joiner:
    """One join."""

    def __init__(self, worker: WorkerId, server: WorkerId, address: Address) -> None:
        self.phase = Phase.ASKING
        self.address = address
        self.inheritance = Inheritance(worker)
        self.founders: tuple[WorkerId, ...] = ()
        self.spent: tuple[WorkerId, ...] = ()
        self.addresses: dict[WorkerId, Address] = {}
        self.members = Members(0, ())
        """With the joiner among them, once the server has told."""
        self._worker = worker
        self._server = server
        self._state: JoinState | None = None
        self._first: dict[WorkerId, dict[int, int]] = {}
        self._lacking: set[tuple[int, WorkerId, int]] = set()

    def begin(self) -> list[Effect]:
        """Ask the server to be let in."""
        return [self._enter(Phase.ASKING), Send(self._server, Join(self.address))]

    def receive(self, sender: WorkerId, message: Message) -> list[Effect] | None:
        """Take a message if it belongs to the join; what follows from it, or None if it does not."""
        effects: list[Effect] = []
        match message:
            case Refuse(reason):
                raise PeerRefused(f"worker {sender} did not let worker {self._worker} join: {reason}")
            case Queued(_, ahead):
                effects = [Log(f"worker {self._worker} waits its turn to join: {ahead} before it")]
            case Roster() if self.phase is Phase.ASKING:
                effects = self._link(message)
            case ScopeState(channel=channel):
                self.inheritance.scopes[channel] = message
            case JoinState():
                self._state = message
                self._first[self._server] = dict(message.next_out)
            case First(next_out):
                self._first[sender] = dict(next_out)
            case Missing(channel, of, sequence, changes):
                self.inheritance.batches[channel].append((of, Progress(channel, sequence, changes)))
                self._lacking.discard((channel, of, sequence))
            case Enlist(joiner) if joiner == self._worker and self.phase is Phase.ENLISTING:
                effects = [Send(self._server, Enlisted(joiner))]
            case Joined(joiner) if joiner == self._worker and self.phase is Phase.ENLISTING:
                effects = [Send(self._server, Settled(joiner)), self._enter(Phase.JOINED)]
            case _:
                return None
        return effects + self._advance()

    def ready(self) -> list[Effect]:
        """The program has built its dataflows: ask to be enlisted."""
        assert self.phase is Phase.BUILDING, self.phase
        return [self._enter(Phase.ENLISTING), Send(self._server, Ready())]

    def _enter(self, phase: Phase) -> Effect:
        self.phase = phase
        return EnterPhase(phase)

    def _link(self, roster: Roster) -> list[Effect]:
        self.addresses = dict(roster.members)
        workers = tuple(sorted(self.addresses))
        self.members = Members(roster.version, workers).joined_by(self._worker)
        self.founders = roster.founders
        self.spent = roster.spent
        return [
            self._enter(Phase.LINKING),
            Reach(self.addresses),
            self._enter(Phase.LEARNING),
            Send(self._server, Linked()),
        ]

    def _advance(self) -> list[Effect]:
        effects: list[Effect] = []
        if self.phase is Phase.LEARNING and self._state is not None and self._first.keys() == self.addresses.keys():
            effects += self._compare(self._state)
        if self.phase is Phase.FILLING and not self._lacking:
            effects.append(self._enter(Phase.BUILDING))
        return effects

    def _compare(self, state: JoinState) -> list[Effect]:
        """Find out which batches are neither in the server's state nor will come directly."""
        heritage = self.inheritance
        heritage.take(state)
        ranges = []
        for member, next_out in self._first.items():
            for channel, stop in next_out.items():
                if channel in heritage.scopes:
                    start = dict(heritage.scopes[channel].next_in).get(member, 0)
                elif channel >= state.channels:
                    start = 0  # its dataflow is not built at the server, which has kept what came for it
                else:
                    start = stop  # its dataflow is complete
                if start > stop:
                    raise ProtocolError(
                        f"worker {member} will repeat batches {stop} to {start - 1} of channel {channel}"
                    )
                if start < stop:
                    ranges.append((channel, member, start, stop))
        for channel in {channel for next_out in self._first.values() for channel in next_out}:
            if channel < state.channels and channel not in heritage.scopes:
                due = tuple(
                    (member, next_out[channel]) for member, next_out in self._first.items() if channel in next_out
                )
                heritage.scopes[channel] = ScopeState(channel, (), (), due)
        self._lacking = {
            (channel, sender, sequence) for channel, sender, start, stop in ranges for sequence in range(start, stop)
        }
        filling: list[Effect] = [self._enter(Phase.FILLING)]
        return [*filling, Send(self._server, Want(tuple(ranges)))] if ranges else filling
