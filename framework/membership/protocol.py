"""What every worker does while others join and leave, and where its own part in that begins.

Two sets of workers matter. *Members* are those that records are routed to. The *audience* are those that hear of
progress: it includes a joiner before it is a member, and a leaver until its farewell. Members change between steps
only, when nothing that was sent is uncounted.

A member that has enlisted a joiner counts it among the members and holds back what is for it, until the joiner's server
says that it has joined, or is to be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from framework.errors import PeerLost, PeerRefused, ProtocolError
from framework.membership.bootstrap_server import BootstrapServer, JoinStage, Participation
from framework.membership.dataflow_state import DataflowState, LentCapability
from framework.membership.effects import (
    Effect,
    HoldRecords,
    Log,
    NotifyJoined,
    NotifyWish,
    Part,
    RefuseLeave,
    RerouteHeld,
    Send,
    SendHeld,
    SetAudience,
    SetDeadline,
    SetMembers,
)
from framework.membership.leaver import Leaver, LeaveStep
from framework.membership.members import Address, Members, WorkerId
from framework.membership.messages import (
    Admit,
    Ask,
    Done,
    Enlist,
    Enlisted,
    Farewell,
    First,
    Forget,
    Grant,
    Join,
    Joined,
    Leaving,
    Linked,
    Queued,
    Ready,
    Refuse,
    Released,
    Roster,
    Settled,
    Want,
    Wish,
)
from framework.membership.turns import Turns
from framework.progress.order import EPOCH_MAX
from framework.wire.messages import Abort, Goodbye, Lost, Message, Progress

_ENDING = "the job is about to end"
_LAST = "the last worker cannot leave; stop the job instead"


class Member:
    """One worker's knowledge of who takes part, and its share in changing that."""

    def __init__(
        self,
        worker: WorkerId,
        members: Members,
        founders: tuple[WorkerId, ...],
        addresses: dict[WorkerId, Address],
        participation: Participation,
        spent: Iterable[WorkerId],
        state: DataflowState,
    ) -> None:
        self.members = members
        self.founders = founders
        self.addresses = addresses
        self.serving: BootstrapServer | None = None
        self.leaving: Leaver | None = None
        self.turns = Turns(coordinating=members.workers[:1] == (worker,))
        self._worker = worker
        self._state = state
        self.spent = {*spent, *members.workers, worker}
        """All that were ever admitted: nobody can join under an id that others may have heard of."""
        self._guests: dict[WorkerId, Address] = {}
        """Joiners that wait for this worker to serve them."""
        self._admitted: WorkerId | None = None
        """The joiner that hears of progress, and that may still not join."""
        self._participation = {one: (first, end) for one, first, end in participation}
        self._lost_guests: dict[WorkerId, str] = {}
        self._wants_to_leave = False
        self._settling: set[WorkerId] = set()
        """Members that have yet to say that they know what has become of a joiner whom this worker served."""
        self._draining: set[WorkerId] = set()
        """Leavers that are members no more and have not said farewell."""
        self._parting: set[WorkerId] = set()
        """Leavers that have, and still listen for the answers."""
        self._changes: list[Callable[[], None]] = []
        """What happens to the members at the end of a step."""
        self._effects: list[Effect] = []
        """What the call that is under way is to return."""

    # What others want to know

    @property
    def audience(self) -> tuple[WorkerId, ...]:
        """The workers that hear of this one's progress."""
        others = {*self.members.workers, *self._draining, *([self._admitted] if self._admitted is not None else [])}
        return tuple(sorted(others - {self._worker}))

    @property
    def lent(self) -> tuple[LentCapability, ...]:
        """Capabilities of a joiner that this worker still answers for."""
        return self.serving.lent if self.serving is not None else ()

    def starters(self, dataflow: int) -> int:
        """How many workers start, or started, a dataflow with the capabilities that everybody starts with."""
        return sum(first <= dataflow < end for first, end in self._participation.values())

    # Beginning to leave

    def wish(self) -> list[Effect]:
        """Ask for what is in the way of leaving to be removed."""
        self._send_all(Wish(self._worker))
        return self._collected()

    def leave(self) -> list[Effect]:
        """Ask for a turn to leave."""
        if len(self.members) == 1:
            raise PeerRefused(_LAST)
        self._wants_to_leave = True
        self._send(self.members.coordinator, Ask(self._worker, self._worker))
        return self._collected()

    def withdraw(self) -> list[Effect]:
        """Withdraw the request for a turn to leave."""
        self._withdraw()
        return self._collected()

    # Messages

    def receive(self, sender: WorkerId, message: Message) -> list[Effect] | None:
        """Take a message if it is about who takes part; what follows from it, or None if it is not."""
        taken = self._receive(sender, message)
        effects = self._collected()
        return effects if taken else None

    def _receive(self, sender: WorkerId, message: Message) -> bool:
        match message:
            case Join(address):
                self._invite(sender, address)
            case Ask():
                self._do(self.turns.ask(message))
            case Queued(worker, _):
                if worker in self._guests:
                    self._send(worker, message)
            case Grant(worker):
                self._granted(worker)
            case Done(worker):
                self._do(self.turns.done(Ask(sender, worker)))
            case Linked() | Want() | Ready():
                if self.serving is not None and self.serving.joiner == sender:
                    self._do(self.serving.receive(message))
            case Admit(joiner, address, first):
                self._admit(joiner, address, first)
            case Enlist(joiner):
                self._changes.append(lambda: self._enlist(joiner, server=sender))
            case Enlisted(joiner):
                self._enlisted(sender, joiner)
            case Joined(joiner):
                self._joined(joiner, server=sender)
            case Wish(worker):
                self._effects.append(NotifyWish(worker))
            case Forget(joiner):
                self._changes.append(lambda: self._forget(joiner, server=sender))
            case Settled(joiner):
                self._settled(sender, joiner)
            case Leaving(built):
                self._changes.append(lambda: self._release(sender, built))
            case Released() | Farewell() if self.leaving is not None:
                self._do(self.leaving.receive(sender, message))
            case Farewell():
                self._part(sender)
            case Goodbye():
                self._parting.discard(sender)
                return False
            case Lost(detail) | Abort(detail) if sender == self._admitted or sender not in self.members.workers:
                self._lost(sender, detail)
            case _:
                return False
        return True

    def heard(self, sender: WorkerId, batch: Progress) -> list[Effect]:
        """A batch of progress came in; to be told while this worker is `serving`."""
        if self.serving is not None:
            self._do(self.serving.record(sender, batch))
        return self._collected()

    def end_step(self, settled: bool) -> list[Effect]:
        """A step is over: all that was lent is told; if nothing that was sent is uncounted, members may change."""
        if self.serving is not None and self.serving.stage is JoinStage.LENDING:
            participation = tuple((worker, first, end) for worker, (first, end) in self._participation.items())
            built = self._state.dataflows_built()
            self._do(self.serving.lent_is_told((*participation, (self.serving.joiner, built, EPOCH_MAX))))
        if self.serving is not None and self.serving.complete:  # what came in with the last answer does not say it died
            self._let_in(self.serving.joiner)
        if settled:
            changes, self._changes = self._changes, []
            for change in changes:
                change()
        if self.leaving is not None:
            if self.leaving.step is not LeaveStep.RELEASING and self._worker not in self.members.workers:
                self._do(self.turns.hand_over(self.members.coordinator))
            self._do(self.leaving.advance())
        return self._collected()

    @property
    def attentive(self) -> bool:
        """Whether the end of a step matters."""
        return self.serving is not None or bool(self._changes) or self.leaving is not None

    @property
    def draining(self) -> bool:
        """Whether somebody is a member no more, and may still have records."""
        return bool(self._draining)

    @property
    def engaged(self) -> bool:
        """Whether somebody else joins or leaves and cannot do so without this worker."""
        return self.serving is not None or bool(self._settling or self._draining or self._parting)

    def close(self) -> list[Effect]:
        """The job is about to end: grant no further turn, and serve no further joiner."""
        self.turns.closed = True
        for guest in list(self._guests):
            self._turn_away(guest, _ENDING)
        return self._collected()

    def give_up(self, joiner: WorkerId, reason: str) -> list[Effect]:
        """Let a join fail that this worker serves; for when it takes too long."""
        if self.serving is not None and self.serving.joiner == joiner:
            self._fail(reason)
        return self._collected()

    # Joining

    def _invite(self, joiner: WorkerId, address: Address) -> None:
        reason = self._unusable(joiner)
        if reason is not None:
            pass
        elif self.leaving is not None:
            reason = f"worker {self._worker} is about to leave; join through another"
        elif self.turns.closed:
            reason = _ENDING
        else:
            self._guests[joiner] = address
            self._log(f"worker {joiner} asks to join through worker {self._worker}")
            self._send(self.members.coordinator, Ask(self._worker, joiner))
            return
        self._effects += [Send(joiner, Refuse(reason)), Part(joiner)]

    def _unusable(self, joiner: WorkerId) -> str | None:
        """Why nobody can join under this id, if so."""
        if joiner in self.spent:
            return f"this job has, or had, a worker {joiner}, and no number is used twice; use a higher process number"
        if joiner < self.members.coordinator:
            return f"the job's lowest worker is {self.members.coordinator}; use a higher process number"
        return None

    def _granted(self, worker: WorkerId) -> None:
        if worker == self._worker and not self._wants_to_leave:
            return  # withdrawn while this was on its way
        if worker == self._worker:
            if len(self.members) == 1:
                self._withdraw()
                self._effects.append(RefuseLeave(_LAST))
                return
            for guest in list(self._guests):
                self._turn_away(guest, f"worker {self._worker} is about to leave; join through another")
            self.leaving = Leaver(self._state, self._worker, self.members.others(self._worker))
            self._do(self.leaving.begin())
            self._changes.append(self._leave_members)
        elif worker in self._guests and (reason := self._unusable(worker)) is not None:
            self._turn_away(worker, reason)
        elif worker in self._guests:
            address = self._guests.pop(worker)
            members = tuple((member, self.addresses[member]) for member in self.members.workers)
            roster = Roster(self.members.version, members, self.founders, tuple(sorted(self.spent)))
            self.serving = BootstrapServer(self._state, worker, address, roster)
            self._do(self.serving.begin())
            self._effects.append(SetDeadline(worker))
        else:
            self._send(self.members.coordinator, Done(worker))

    def _turn_away(self, guest: WorkerId, reason: str) -> None:
        del self._guests[guest]
        self._effects += [Send(guest, Refuse(reason)), Part(guest)]
        self._send(self.members.coordinator, Done(guest))

    def _admit(self, joiner: WorkerId, address: Address, first: int) -> None:
        self._admitted = joiner
        self.spent.add(joiner)
        self.addresses[joiner] = address
        self._participation[joiner] = (first, EPOCH_MAX)
        self._state.count(first, 1)
        self._effects.append(SetAudience(self.audience))
        if self.serving is None:
            self._send(joiner, First(self._state.next_out()))

    def _enlist(self, joiner: WorkerId, server: WorkerId) -> None:
        self.members = self.members.joined_by(joiner)
        self._effects += [SetMembers(self.members), HoldRecords(joiner)]
        if joiner not in self._lost_guests:  # else the server will hear of it, and have all forget the joiner
            self._send(server, Enlisted(joiner))

    def _enlisted(self, worker: WorkerId, joiner: WorkerId) -> None:
        if self.serving is None or self.serving.joiner != joiner:
            return
        self._do(self.serving.enlisted(worker))

    def _let_in(self, joiner: WorkerId) -> None:
        self.serving = None
        self._log(f"worker {joiner} has joined")
        self._settle(Joined(joiner))

    def _joined(self, joiner: WorkerId, server: WorkerId) -> None:
        if joiner in self._lost_guests:
            raise PeerLost(f"worker {self._worker} lost worker {joiner}: {self._lost_guests[joiner]}")
        self._admitted = None
        self._effects += [SendHeld(), NotifyJoined(joiner)]
        self._send(server, Settled(joiner))

    def _lost(self, guest: WorkerId, detail: str) -> None:
        """Somebody who is not a member is gone: a joiner, or a leaver after its farewell."""
        if self.serving is not None and self.serving.joiner == guest:
            self._fail(f"it went away: {detail}")
        elif guest in self._draining:
            raise PeerLost(f"worker {self._worker} lost worker {guest}, which was leaving: {detail}")
        elif guest == self._admitted:
            self._lost_guests[guest] = detail
        elif self._guests.pop(guest, None) is not None:
            self._send(self.members.coordinator, Done(guest))
        self._parting.discard(guest)
        self._effects.append(Part(guest))

    def _fail(self, reason: str) -> None:
        serving = self.serving
        assert serving is not None
        self.serving = None
        self._log(f"worker {serving.joiner} does not join: {reason}")
        self._do(serving.give_up(reason))
        self._effects.append(Part(serving.joiner))
        if serving.stage in (JoinStage.ADMITTED, JoinStage.ENLISTING):
            self._settle(Forget(serving.joiner))
        else:
            self._send(self.members.coordinator, Done(serving.joiner))

    def _settle(self, verdict: Joined | Forget) -> None:
        """Tell all what has become of a joiner. The turn ends when all have answered, because the next one may be
        another server's, whose messages could overtake these."""
        members = self.members.workers if isinstance(verdict, Joined) else self.members.others(verdict.joiner)
        self._settling = set(members)
        for worker in members:
            self._send(worker, verdict)

    def _settled(self, member: WorkerId, joiner: WorkerId) -> None:
        self._settling.discard(member)
        if not self._settling:
            self._send(self.members.coordinator, Done(joiner))

    def _forget(self, joiner: WorkerId, server: WorkerId) -> None:
        self._admitted = None
        first, _ = self._participation.pop(joiner)
        self._state.count(first, -1)
        self._lost_guests.pop(joiner, None)
        self.addresses.pop(joiner, None)
        enlisted = joiner in self.members.workers
        if enlisted:
            self.members = self.members.left_by(joiner)
        self._effects.append(SetAudience(self.audience))
        if enlisted:
            self._effects += [SetMembers(self.members), RerouteHeld()]
        self._effects.append(Part(joiner))
        self._send(server, Settled(joiner))

    # Leaving

    def _leave_members(self) -> None:
        self.members = self.members.left_by(self._worker)
        self._effects += [SetAudience(self.audience), SetMembers(self.members)]

    def _release(self, leaver: WorkerId, built: int) -> None:
        coordinated = leaver == self.members.coordinator
        self.members = self.members.left_by(leaver)
        self._draining.add(leaver)
        first, _ = self._participation[leaver]
        self._participation[leaver] = (first, built)
        self._state.count(max(first, built), -1)
        self._effects += [SetAudience(self.audience), SetMembers(self.members)]
        self._send(leaver, Released())
        if coordinated and self.members.coordinator == self._worker:
            self._do(self.turns.coordinate(Ask(leaver, leaver)))

    def _part(self, leaver: WorkerId) -> None:
        if leaver not in self._draining:
            raise ProtocolError(f"worker {leaver} says farewell and was not leaving")
        self._draining.discard(leaver)
        self._parting.add(leaver)
        self.addresses.pop(leaver, None)
        self._send(leaver, Farewell())
        self._participation = {
            one: (first, end)
            for one, (first, end) in self._participation.items()
            if end > self._state.dataflows_built()
        }
        self._effects.append(SetAudience(self.audience))
        if self._worker == self.members.coordinator:
            self._log(f"worker {leaver} has left")

    def _withdraw(self) -> None:
        self._wants_to_leave = False
        self._send(self.members.coordinator, Done(self._worker))

    # Effects

    def _send(self, peer: WorkerId, message: Message) -> None:
        """What a worker says to itself, it hears at once."""
        if peer == self._worker:
            assert self._receive(peer, message), message
        else:
            self._effects.append(Send(peer, message))

    def _send_all(self, message: Message) -> None:
        for worker in self.members.workers:
            self._send(worker, message)

    def _do(self, sends: Sequence[Send]) -> None:
        for send in sends:
            self._send(send.peer, send.message)

    def _log(self, text: str) -> None:
        self._effects.append(Log(text))

    def _collected(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects
