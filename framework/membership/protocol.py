"""What every worker does while others join and leave, and where its own part in that begins.

Two sets of workers matter. *Members* are those that records go to. The *audience* are those that hear of progress: it
includes a joiner before it is a member, and a leaver until its farewell. Members change between steps only, when
nothing that was sent is uncounted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from framework.errors import PeerLost, PeerRefused, ProtocolError
from framework.membership.bootstrap_server import BootstrapServer, JoinStage, Participation
from framework.membership.context import LentCapability, MembershipContext
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
    Forgotten,
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
    Want,
    Wish,
)
from framework.membership.turns import Turns
from framework.progress.order import EPOCH_MAX
from framework.wire.messages import Abort, Goodbye, Lost, Message, Progress

_ENDING = "the job is about to end"


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
        site: MembershipContext,
    ) -> None:
        self.members = members
        self.founders = founders
        self.addresses = addresses
        self.serving: BootstrapServer | None = None
        self.leaving: Leaver | None = None
        self.turns = Turns(self._send, coordinating=members.workers[:1] == (worker,))
        self._worker = worker
        self._site = site
        self._stock = site.stock
        self.spent = {*spent, *members.workers, worker}
        """All that were ever admitted: nobody can join under an id that others may have heard of."""
        self._guests: dict[WorkerId, Address] = {}
        """Joiners that wait for this worker to serve them."""
        self._admitted: WorkerId | None = None
        self._participation = {one: (first, end) for one, first, end in participation}
        self._lost_guests: dict[WorkerId, str] = {}
        self._wants_to_leave = False
        self._forgetting: set[WorkerId] = set()
        """Members that have yet to forget a joiner whom this worker served."""
        self._draining: set[WorkerId] = set()
        """Leavers that are members no more and have not said farewell."""
        self._parting: set[WorkerId] = set()
        """Leavers that have, and still listen for the answers."""
        self._changes: list[Callable[[], None]] = []

    # What others want to know

    @property
    def audience(self) -> tuple[WorkerId, ...]:
        """The workers that hear of this one's progress."""
        others = {*self.members.workers, *self._draining, *([self._admitted] if self._admitted is not None else [])}
        return tuple(sorted(others - {self._worker}))

    @property
    def provisional(self) -> WorkerId | None:
        """The joiner that this worker serves and that may still not make it."""
        serving = self.serving
        return serving.joiner if serving is not None and serving.stage is not JoinStage.ENLISTING else None

    @property
    def lent(self) -> tuple[LentCapability, ...]:
        """Capabilities of a joiner that this worker still answers for."""
        return self.serving.lent if self.serving is not None and self.provisional is not None else ()

    def starters(self, dataflow: int) -> int:
        """How many workers start, or started, a dataflow with the capabilities that everybody starts with."""
        return sum(first <= dataflow < end for first, end in self._participation.values())

    # Beginning to leave

    def wish(self) -> None:
        """Ask for what is in the way of leaving to be removed."""
        for worker in self.members.workers:
            self._send(worker, Wish(self._worker))

    def leave(self) -> None:
        """Ask for a turn to leave."""
        if len(self.members) == 1:
            raise PeerRefused("the last worker cannot leave; stop the job instead")
        self._wants_to_leave = True
        self._send(self.members.coordinator, Ask(self._worker, self._worker))

    def withdraw(self) -> None:
        """Want no turn to leave any more."""
        self._wants_to_leave = False
        self._send(self.members.coordinator, Done(self._worker))

    # Messages

    def receive(self, sender: WorkerId, message: Message) -> bool:
        """Take a message if it belongs to a rescaling; whether it does."""
        match message:
            case Join(address):
                self._invite(sender, address)
            case Ask():
                self.turns.ask(message)
            case Queued(worker, _):
                if worker in self._guests:
                    self._send(worker, message)
            case Grant(worker):
                self._granted(worker)
            case Done(worker):
                self.turns.done(Ask(sender, worker))
            case Linked() | Want() | Ready():
                if self.serving is not None and self.serving.joiner == sender:
                    self.serving.receive(message)
            case Admit(joiner, address, first):
                self._admit(joiner, address, first)
            case Enlist(joiner):
                self._changes.append(lambda: self._enlist(joiner, server=sender))
            case Enlisted(joiner):
                self._enlisted(sender, joiner)
            case Joined(joiner):
                self._site.joined_by(joiner)
            case Wish(worker):
                self._site.wished(worker)
            case Forget(joiner):
                self._forget(joiner, server=sender)
            case Forgotten(joiner):
                self._forgotten(sender, joiner)
            case Leaving(built):
                self._changes.append(lambda: self._release(sender, built))
            case Released() | Farewell() if self.leaving is not None:
                self.leaving.receive(sender, message)
            case Farewell():
                self._part(sender)
            case Goodbye():
                self._parting.discard(sender)
                return False
            case Lost(detail) if sender not in self.members.workers:
                self._lost(sender, detail)
            case Abort(report) if sender not in self.members.workers:
                self._lost(sender, report)
            case _:
                return False
        return True

    def heard(self, sender: WorkerId, batch: Progress) -> None:
        """A batch of progress came in."""
        if self.serving is not None:
            self.serving.record(sender, batch)

    def end_step(self, settled: bool) -> None:
        """A step is over: all that was lent is told; if nothing that was sent is uncounted, members may change."""
        if self.serving is not None and self.serving.stage is JoinStage.LENDING:
            participation = tuple((worker, first, end) for worker, (first, end) in self._participation.items())
            built = self._stock.dataflows_built()
            self.serving.lent_is_told((*participation, (self.serving.joiner, built, EPOCH_MAX)))
        if settled:
            changes, self._changes = self._changes, []
            for change in changes:
                change()
        if self.leaving is not None:
            if self.leaving.step is not LeaveStep.RELEASING and self._worker not in self.members.workers:
                self.turns.hand_over(self.members.coordinator)
            self.leaving.go_on()

    @property
    def attentive(self) -> bool:
        """Whether the end of a step matters."""
        return self.serving is not None or bool(self._changes) or self.leaving is not None

    @property
    def engaged(self) -> bool:
        """Whether somebody else joins or leaves and cannot do so without this worker."""
        return self.serving is not None or bool(self._forgetting or self._draining or self._parting)

    def close(self) -> None:
        """The job is about to end: grant no further turn, and serve no further joiner."""
        self.turns.closed = True
        for guest in list(self._guests):
            self._turn_away(guest, _ENDING)

    def give_up(self, joiner: WorkerId, reason: str) -> None:
        """Let a join fail that this worker serves; for when it takes too long."""
        if self.provisional == joiner:
            self._fail(reason)

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
            self._site.tell(f"worker {joiner} asks to join through worker {self._worker}")
            self._send(self.members.coordinator, Ask(self._worker, joiner))
            return
        self._send(joiner, Refuse(reason))
        self._site.part_with(joiner)

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
                self.withdraw()
                raise PeerRefused("the last worker cannot leave; stop the job instead")
            for guest in list(self._guests):
                self._turn_away(guest, f"worker {self._worker} is about to leave; join through another")
            self.leaving = Leaver(self._stock, self._site.send, self._worker, self.members.others(self._worker))
            self._changes.append(self._leave_members)
        elif worker in self._guests and (reason := self._unusable(worker)) is not None:
            self._turn_away(worker, reason)
        elif worker in self._guests:
            address = self._guests.pop(worker)
            members = tuple((member, self.addresses[member]) for member in self.members.workers)
            roster = Roster(self.members.version, members, self.founders, tuple(sorted(self.spent)))
            self.serving = BootstrapServer(self._stock, self._send, worker, address, roster)
            self._site.bound(worker)
        else:
            self._send(self.members.coordinator, Done(worker))

    def _turn_away(self, guest: WorkerId, reason: str) -> None:
        del self._guests[guest]
        self._send(guest, Refuse(reason))
        self._site.part_with(guest)
        self._send(self.members.coordinator, Done(guest))

    def _admit(self, joiner: WorkerId, address: Address, first: int) -> None:
        self._admitted = joiner
        self.spent.add(joiner)
        self.addresses[joiner] = address
        self._participation[joiner] = (first, EPOCH_MAX)
        self._stock.count(first, 1)
        self._site.audience_changed(self.audience)
        if self.serving is None:
            self._send(joiner, First(self._stock.next_out()))

    def _enlist(self, joiner: WorkerId, server: WorkerId) -> None:
        if joiner in self._lost_guests:
            raise PeerLost(f"worker {self._worker} lost worker {joiner}: {self._lost_guests[joiner]}")
        self._admitted = None
        self.members = self.members.joined_by(joiner)
        self._site.members_changed(self.members)
        self._send(server, Enlisted(joiner))

    def _enlisted(self, member: WorkerId, joiner: WorkerId) -> None:
        if self.serving is None or self.serving.joiner != joiner:
            return
        self.serving.enlisted(member)
        if self.serving.complete:
            self.serving = None
            self._site.tell(f"worker {joiner} has joined")
            for worker in self.members.workers:
                self._send(worker, Joined(joiner))
            self._send(self.members.coordinator, Done(joiner))

    def _lost(self, guest: WorkerId, detail: str) -> None:
        """Somebody who is not a member is gone: a joiner, or a leaver after its farewell."""
        if self.serving is not None and self.serving.joiner == guest:
            if self.provisional is None:
                raise PeerLost(f"worker {self._worker} lost worker {guest}: {detail}")
            self._fail(f"it went away: {detail}")
        elif guest in self._draining:
            raise PeerLost(f"worker {self._worker} lost worker {guest}, which was leaving: {detail}")
        elif guest == self._admitted:
            self._lost_guests[guest] = detail
        elif self._guests.pop(guest, None) is not None:
            self._send(self.members.coordinator, Done(guest))
        self._parting.discard(guest)
        self._site.part_with(guest)

    def _fail(self, reason: str) -> None:
        serving = self.serving
        assert serving is not None
        self.serving = None
        self._site.tell(f"worker {serving.joiner} does not join: {reason}")
        admitted = serving.stage is JoinStage.ADMITTED
        serving.give_up(reason)
        self._site.part_with(serving.joiner)
        if not admitted:
            self._send(self.members.coordinator, Done(serving.joiner))
            return
        # The next turn may be another server's, whose words could overtake these.
        self._forgetting = set(self.members.workers)
        for worker in self.members.workers:
            self._send(worker, Forget(serving.joiner))

    def _forgotten(self, member: WorkerId, joiner: WorkerId) -> None:
        self._forgetting.discard(member)
        if not self._forgetting:
            self._send(self.members.coordinator, Done(joiner))

    def _forget(self, joiner: WorkerId, server: WorkerId) -> None:
        self._admitted = None
        first, _ = self._participation.pop(joiner)
        self._stock.count(first, -1)
        self._lost_guests.pop(joiner, None)
        self.addresses.pop(joiner, None)
        self._site.audience_changed(self.audience)
        self._site.part_with(joiner)
        self._send(server, Forgotten(joiner))

    # Leaving

    def _leave_members(self) -> None:
        self.members = self.members.left_by(self._worker)
        self._site.members_changed(self.members)

    def _release(self, leaver: WorkerId, built: int) -> None:
        coordinated = leaver == self.members.coordinator
        self.members = self.members.left_by(leaver)
        self._draining.add(leaver)
        first, _ = self._participation[leaver]
        self._participation[leaver] = (first, built)
        self._stock.count(max(first, built), -1)
        self._site.members_changed(self.members)
        self._send(leaver, Released())
        if coordinated and self.members.coordinator == self._worker:
            self.turns.coordinate(Ask(leaver, leaver))

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
            if end > self._stock.dataflows_built()
        }
        self._site.audience_changed(self.audience)
        if self._worker == self.members.coordinator:
            self._site.tell(f"worker {leaver} has left")

    def _send(self, peer: WorkerId, message: Message) -> None:
        if peer == self._worker:
            assert self.receive(peer, message), message
        else:
            self._site.send(peer, message)
