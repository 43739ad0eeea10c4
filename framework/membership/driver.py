"""The membership as its worker sees it: hands messages to the protocol cores, and carries out what they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from framework.errors import GraphError, PeerLost
from framework.events import MembersChanged
from framework.membership.dataflow_state import DataflowState
from framework.membership.effects import (
    Effect,
    EnterPhase,
    HoldRecords,
    Log,
    NotifyJoined,
    NotifyWish,
    Part,
    Phase,
    Reach,
    RefuseLeave,
    RerouteHeld,
    Send,
    SendHeld,
    SetAudience,
    SetDeadline,
    SetMembers,
)
from framework.membership.inheritance import Inheritance
from framework.membership.join_phases import JoinPhases
from framework.membership.joiner import Joiner
from framework.membership.leaver import LeaveStep
from framework.membership.members import Address, Members, WorkerId
from framework.membership.messages import Join, JoinState, Missing, ScopeState
from framework.membership.obstacles import Obstacles
from framework.membership.protocol import Member
from framework.progress.order import EPOCH_MAX
from framework.wire.messages import Abort, Lost, Message, Progress, encode

if TYPE_CHECKING:
    from framework.worker.stepper import Stepper

JOIN_TIMEOUT_S = 30.0
"""How long a join may take once it is its turn. After that the job goes on without the joiner."""


class Membership:
    """Who takes part, and this worker's part in changing that."""

    def __init__(
        self, stepper: Stepper, dataflow_state: DataflowState, members: Members, addresses: dict[WorkerId, Address]
    ) -> None:
        self.worker = stepper.id
        self.joiner: Joiner | None = None
        """The protocol core of this worker's own join, if it came after the job had begun."""
        self.inheritance = Inheritance(stepper.id)
        self.phases = JoinPhases(stepper.events)
        self.obstacles = Obstacles(self, stepper.dataflows)
        """What keeps this worker from leaving."""
        self.complete: set[WorkerId] = set()
        """Workers that have joined since this one is here: for good, and every member's records go to them."""
        self.on_joined: list[Callable[[WorkerId], None]] = []
        """Called with a worker that has joined, itself on the one that did."""
        self.on_changed: list[Callable[[Members], None]] = []
        """Called with the members when they change; one that comes may go again, without having joined."""
        self.on_wish: list[Callable[[WorkerId], None]] = []
        """Called with a worker that wants to leave and has bins, say, that must go first."""
        self.refusal: str | None = None
        """Why this worker may not leave, although it was its turn."""
        self._stepper = stepper
        self._dataflows = stepper.dataflows
        self._asked_early: dict[WorkerId, Join] = {}
        """Joiners that ask this worker, which has not joined itself."""
        self.dataflow_state = dataflow_state
        participation = tuple((founder, 0, EPOCH_MAX) for founder in members.workers)
        self.member = Member(stepper.id, members, members.workers, addresses, participation, (), dataflow_state)
        """The protocol core of everybody's joins and leaves."""
        self.audience = self.member.audience
        """The workers that hear of this one's progress."""

    # Who takes part

    @property
    def members(self) -> Members:
        """The workers that records go to."""
        return self.joiner.members if self.joiner is not None and self.joining else self.member.members

    @property
    def founders(self) -> tuple[WorkerId, ...]:
        """The workers that the job began with."""
        return self.joiner.founders if self.joiner is not None else self.member.founders

    @property
    def addresses(self) -> dict[WorkerId, Address]:
        """Where the processes of members and of those on their way listen."""
        return self.member.addresses

    @property
    def joining(self) -> bool:
        """Whether this worker has not joined yet."""
        return self.joiner is not None and self.joiner.phase is not Phase.JOINED

    @property
    def joined(self) -> bool:
        """Whether this worker came after the job had begun, and is a member."""
        return self.joiner is not None and not self.joining

    @property
    def learned(self) -> bool:
        """Whether a joiner knows all that it needs to build its dataflows, and has not asked to be enlisted."""
        return self.joiner is not None and self.joiner.phase is Phase.BUILDING

    @property
    def leaving(self) -> bool:
        """Whether it is this worker's turn to leave."""
        return self.member.leaving is not None

    @property
    def parted(self) -> bool:
        """Whether nothing is left here that the others would have to know of, and they no longer tell this worker."""
        leaving = self.member.leaving
        return leaving is not None and leaving.step in (LeaveStep.PARTING, LeaveStep.GONE)

    @property
    def gone(self) -> bool:
        """Whether this worker has left."""
        return self.member.leaving is not None and self.member.leaving.step is LeaveStep.GONE

    @property
    def serving(self) -> bool:
        """Whether somebody joins through this worker."""
        return self.member.serving is not None

    @property
    def active(self) -> bool:
        """Whether something is under way that needs this worker to step."""
        return self.joining or self.member.attentive

    @property
    def changing(self) -> bool:
        """Whether somebody is on its way in or out; to be asked on the coordinator."""
        return self.member.turns.current is not None

    @property
    def draining(self) -> bool:
        """Whether somebody is a member no more, and may still have records."""
        return self.member.draining

    @property
    def engaged(self) -> bool:
        """Whether somebody else joins or leaves and cannot do so without this worker."""
        return self.member.engaged

    # Joining

    def join(self, server: WorkerId, address: Address) -> None:
        """Ask `server` to be let in."""
        self.joiner = Joiner(self.worker, server, address)
        self.inheritance = self.joiner.inheritance
        self._carry_out(self.joiner.begin())

    def starters(self, dataflow: int) -> int:
        """How many workers start a dataflow with the capabilities that everybody starts with."""
        return self.inheritance.starters(dataflow) if self.joining else self.member.starters(dataflow)

    def check_built(self) -> None:
        """Raise if a joiner's program has come to its end without having built what the job runs."""
        self.inheritance.check_built(self._dataflows.built)

    def enlist(self) -> None:
        """Ask to become a member, if the state has come and the program has built its dataflows on it."""
        if self.joiner is not None and self.learned:
            self.check_built()
            self._carry_out(self.joiner.ready())

    # Leaving

    def wish_to_leave(self) -> None:
        """Ask for what is in the way to be removed; the worker that commands the bins does it."""
        self._stepper.log(f"worker {self.worker} leaves: {self.obstacles.objection()}")
        self._carry_out(self.member.wish())

    def begin_leave(self) -> None:
        """Ask for a turn to leave."""
        self.obstacles.check()
        reason = self.obstacles.objection()
        if reason is not None:
            raise GraphError(f"worker {self.worker} cannot leave yet: {reason}")
        self.refusal = None
        self._carry_out(self.member.leave())

    def withdraw(self) -> None:
        """Ask for a turn to leave no longer."""
        self._carry_out(self.member.withdraw())

    def close(self) -> None:
        """The job is about to end: let nobody else in, nor, on the coordinator, out."""
        self._carry_out(self.member.close())

    # Messages and steps

    def receive(self, sender: WorkerId, message: Message) -> bool:
        """Take a message if it concerns a join or a leave; whether it does."""
        if self.joiner is not None and self.joining:
            return self._receive_joining(self.joiner, sender, message)
        effects = self.member.receive(sender, message)
        if effects is None:
            return False
        self._carry_out(effects)
        return True

    def heard(self, sender: WorkerId, batch: Progress) -> None:
        """A batch of progress came in; to be told while this worker is `serving`."""
        self._carry_out(self.member.heard(sender, batch))

    def end_step(self) -> None:
        """A step is over."""
        if self.member.attentive:
            settled = not any(root.uncounted() for root in self._dataflows.roots.values())
            self._carry_out(self.member.end_step(settled))

    def _receive_joining(self, joiner: Joiner, sender: WorkerId, message: Message) -> bool:
        match message:
            case Join():
                self._asked_early[sender] = message
                return True
            case Lost() | Abort() if self._asked_early.pop(sender, None) is not None:
                return True
            case Lost(detail) | Abort(detail):
                raise PeerLost(f"worker {self.worker} could not join: it lost worker {sender}: {detail}")
            case ScopeState() | JoinState() | Missing():
                self.phases.inherited_bytes += len(encode(message))
        effects = joiner.receive(sender, message)
        if effects is None:
            return False
        self._carry_out(effects)
        if joiner.phase is Phase.JOINED:
            self._become_member(joiner)
        return True

    def _become_member(self, joiner: Joiner) -> None:
        addresses = {**joiner.addresses, self.worker: joiner.address}
        participation = joiner.inheritance.participation
        self.member = Member(
            self.worker, joiner.members, joiner.founders, addresses, participation, joiner.spent, self.dataflow_state
        )
        members = self.member.members
        self._carry_out([SetAudience(self.member.audience), SetMembers(members), NotifyJoined(self.worker)])
        for sender, message in self._asked_early.items():
            self.receive(sender, message)
        self._asked_early.clear()

    # Effects

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        transport = self._stepper.transport
        for effect in effects:
            match effect:
                case Send(peer, message):
                    transport.send(peer, message)
                case Reach(addresses):
                    transport.reach(addresses)
                case Part(peer):
                    transport.part_with(peer)
                case SetAudience(audience):
                    self.audience = audience
                case SetMembers(members):
                    self._change_members(members)
                case HoldRecords(joiner):
                    self._stepper.held.hold(joiner)
                case SendHeld():
                    self._stepper.held.send()
                case RerouteHeld():
                    self._stepper.held.reroute()
                case NotifyJoined(joiner):
                    self.complete.add(joiner)
                    for callback in self.on_joined:
                        callback(joiner)
                case NotifyWish(worker):
                    for callback in self.on_wish:
                        callback(worker)
                case EnterPhase(phase):
                    self._enter(phase)
                case Log(text):
                    self._stepper.log(text)
                case RefuseLeave(reason):
                    self.refusal = reason
                case SetDeadline(joiner):
                    self._limit(joiner)

    def _change_members(self, members: Members) -> None:
        if self._stepper.events.listening:
            self._stepper.events.emit(MembersChanged(members))
        for callback in self.on_changed:
            callback(members)

    def _enter(self, phase: Phase) -> None:
        listening = self._stepper.events.listening  # a supervisor does, and tells who asks
        self.phases.enter(phase)
        if phase is Phase.JOINED and not listening:
            self._stepper.log(f"worker {self.worker} is in after {self.phases.summary()}")

    def _limit(self, joiner: WorkerId) -> None:
        join = self.member.serving

        def give_up() -> None:
            if self.member.serving is join:  # and not a second attempt under the same number
                self._carry_out(self.member.give_up(joiner, f"it took more than {JOIN_TIMEOUT_S:g} s"))

        self._stepper.after(JOIN_TIMEOUT_S, give_up)
