"""A worker's part in joins and leaves: drives the protocol cores of `framework.membership`.

What joiners are lent and told, and what a leaver must be rid of, is the `WorkerDataflowState`'s to know.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from framework.errors import DataflowMismatch, GraphError, PeerLost
from framework.events import JoinPhase, MembersChanged
from framework.membership.dataflow_state import WorkerDataflowState
from framework.membership.joiner import Joiner, Phase
from framework.membership.leaver import LeaveStep
from framework.membership.members import Address, Members, WorkerId
from framework.membership.messages import JoinState, Missing, ScopeState
from framework.membership.protocol import Member
from framework.progress.order import EPOCH_MAX, Time
from framework.progress.subgraph import Change, ProgressState
from framework.wire.messages import Abort, Data, Lost, Message, Progress, encode

if TYPE_CHECKING:
    from framework.worker.stepper import Stepper

JOIN_TIMEOUT_S = 30.0
"""How long a join may take once it is its turn. After that the job goes on without the joiner."""

_log = logging.getLogger("hailer.rescale")

Inherited = tuple[ProgressState | None, list[tuple[WorkerId, int, tuple[Change, ...]]]]


class Rescaling:
    """The membership as one worker sees it. Implements `Site`."""

    def __init__(self, worker: Stepper, members: Members, addresses: dict[WorkerId, Address]) -> None:
        self.joiner: Joiner | None = None
        self.on_joined: list[Callable[[WorkerId], None]] = []
        """Called with a worker once every member's records may go to it."""
        self.on_changed: list[Callable[[Members], None]] = []
        """Called with the members when they change."""
        self.on_wish: list[Callable[[WorkerId], None]] = []
        """Called with a worker that wants to leave and has bins, say, that must go first."""
        self.objections: list[Callable[[], str | None]] = []
        """Asked before this worker leaves: what is in the way, if anything."""
        self.inherited_bytes = 0
        """How much of progress a joiner was told."""
        self.complete: set[WorkerId] = set()
        """Workers that have joined since this one is here, and that every member's records may go to."""
        self.stock = WorkerDataflowState(worker.id, worker.installed)
        self._worker = worker
        participation = tuple((founder, 0, EPOCH_MAX) for founder in members.workers)
        self._member = Member(worker.id, members, members.workers, addresses, participation, (), self)
        self._audience = self._member.audience
        self._phases: list[tuple[Phase, float]] = []

    # What the worker wants to know

    @property
    def members(self) -> Members:
        """The workers that records go to."""
        return self.joiner.members if self.joiner is not None and self.joining else self._member.members

    @property
    def founders(self) -> tuple[WorkerId, ...]:
        """The workers that the job began with."""
        return self.joiner.founders if self.joiner is not None else self._member.founders

    @property
    def audience(self) -> tuple[WorkerId, ...]:
        """The workers that hear of this one's progress."""
        return self._audience

    @property
    def member(self) -> Member:
        """The protocol core, for the simulator."""
        return self._member

    @property
    def joining(self) -> bool:
        """Whether this worker is not a member yet."""
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
    def gone(self) -> bool:
        """Whether this worker has left."""
        return self._member.leaving is not None and self._member.leaving.step is LeaveStep.GONE

    @property
    def leaving(self) -> bool:
        """Whether it is this worker's turn to leave."""
        return self._member.leaving is not None

    @property
    def parted(self) -> bool:
        """Whether nothing is left here that the others would have to know of, and they no longer tell this worker."""
        leaving = self._member.leaving
        return leaving is not None and leaving.step in (LeaveStep.PARTING, LeaveStep.GONE)

    @property
    def active(self) -> bool:
        """Whether something is under way that needs this worker to step."""
        return self.joining or self._member.attentive

    @property
    def changing(self) -> bool:
        """Whether somebody is on its way in or out; to be asked on the coordinator."""
        return self._member.turns.current is not None

    @property
    def engaged(self) -> bool:
        """Whether somebody else joins or leaves and cannot do so without this worker."""
        return self._member.engaged

    def close(self) -> None:
        """The job is about to end: let nobody else in, nor, on the coordinator, out."""
        self._member.close()

    # Joining

    def begin_join(self, server: WorkerId, address: Address, reach: Callable[[dict[WorkerId, Address]], None]) -> None:
        """Ask `server` to be let in."""
        self._note(Phase.ASKING)
        self.joiner = Joiner(
            self._worker.id, server, address, send=self.send, reach=reach, tell=self.tell, entered=self._note
        )

    def initial_time(self, path: str, port: int, minimum: Time) -> tuple[bool, Time]:
        """Whether an output starts with a capability, and for which time."""
        if self.joiner is None or int(path.split(".")[0]) >= self.joiner.inheritance.built:
            return True, minimum
        lent = self.joiner.inheritance.lent.pop((path, port), None)
        return (False, minimum) if lent is None else (True, lent)

    def inherited(self, channel: int) -> Inherited:
        """What a scope begins with on a joiner: the server's state, if it has begun, and batches passed on."""
        if self.joiner is None:
            return None, []
        heritage = self.joiner.inheritance
        passed_on = [(sender, batch.sequence, batch.changes) for sender, batch in heritage.batches.pop(channel, [])]
        scope = heritage.scope(channel)
        if scope is None:
            return None, passed_on
        heritage.scopes.pop(channel, None)
        state = ProgressState(
            {(location, time): count for location, time, count in scope.pointstamps},
            {(location, time): count for location, time, count in scope.exits},
            {WorkerId(worker): sequence for worker, sequence in scope.next_in},
            0,
        )
        return state, passed_on

    def check_fingerprint(self, number: int, fingerprint: bytes) -> None:
        """Raise if a joiner has built something else than the job runs."""
        if self.joiner is None:
            return
        known = self.joiner.inheritance.fingerprints.get(number)
        if known is not None and known != fingerprint:
            raise DataflowMismatch(
                f"this program does not fit the job that worker {self._worker.id} was to join: they built different "
                f"dataflows (number {number}); join with the same program, of the same version, as the job was started"
            )

    def check_built(self) -> None:
        """Raise if a joiner's program has come to its end without having built what the job runs."""
        if self.joiner is not None and self._worker.installed.built < self.joiner.inheritance.built:
            raise GraphError(
                f"worker {self._worker.id} joined a job of {self.joiner.inheritance.built} dataflows and built "
                f"{self._worker.installed.built}; build them all before worker.bootstrap()"
            )

    def enlist(self) -> None:
        """Ask to become a member, if the state has come and the program has built its dataflows on it."""
        if self.joiner is not None and self.learned:
            self.check_built()
            self.joiner.ready()

    def starters(self, dataflow: int) -> int:
        """How many workers start a dataflow with the capabilities that everybody starts with."""
        if self.joiner is not None and self.joining:
            return sum(first <= dataflow < end for _, first, end in self.joiner.inheritance.participation)
        return self._member.starters(dataflow)

    # Leaving

    def check_may_leave(self) -> None:
        """Raise if this worker can never leave."""
        self.check_built()
        if len(self.members) == 1:
            raise GraphError(f"worker {self._worker.id} cannot leave: it is the last one; stop the job instead")
        if self._worker.id in self.founders and self._worker.installed.fixed_operators:
            names = ", ".join(sorted({repr(name) for name in self._worker.installed.fixed_operators}))
            raise GraphError(
                f"worker {self._worker.id} cannot leave: {names} keep their keys on the workers that the job began "
                f"with; put them on bins, or keep this worker"
            )

    @property
    def may_leave(self) -> bool:
        """Whether this worker can leave, once nothing is in the way."""
        try:
            self.check_may_leave()
        except GraphError:
            return False
        return True

    def objection(self) -> str | None:
        """What is in the way of leaving just now, if anything."""
        return next(filter(None, (objection() for objection in self.objections)), None)

    def wish_to_leave(self) -> None:
        """Ask for what is in the way to be removed; whoever commands the bins does it."""
        self.tell(f"worker {self._worker.id} leaves: {self.objection()}")
        self._member.wish()

    def begin_leave(self) -> None:
        """Ask for a turn to leave."""
        self.check_may_leave()
        reason = self.objection()
        if reason is not None:
            raise GraphError(f"worker {self._worker.id} cannot leave yet: {reason}")
        self._member.leave()

    def withdraw(self) -> None:
        """Ask for a turn to leave no longer."""
        self._member.withdraw()

    # Messages and steps

    def receive(self, sender: WorkerId, message: Message) -> bool:
        """Take a message if it concerns a join or a leave; whether it does."""
        if isinstance(message, Data):
            return False
        if isinstance(message, Progress):
            self._member.heard(sender, message)
            return False
        if self.joining:
            return self._receive_joining(sender, message)
        return self._member.receive(sender, message)

    def end_step(self) -> None:
        """A step is over."""
        if not self._member.attentive:
            return
        settled = not any(root.uncounted() for root in self._worker.installed.roots.values())
        self._member.end_step(settled)

    def _receive_joining(self, sender: WorkerId, message: Message) -> bool:
        joiner = self.joiner
        assert joiner is not None
        match message:
            case Lost(detail) | Abort(detail):
                raise PeerLost(f"worker {self._worker.id} could not join: it lost worker {sender}: {detail}")
            case ScopeState() | JoinState() | Missing():
                self.inherited_bytes += len(encode(message))
        taken = joiner.receive(sender, message)
        if joiner.phase is Phase.JOINED:
            self._become_member(joiner)
        return taken

    def _become_member(self, joiner: Joiner) -> None:
        addresses = {**joiner.addresses, self._worker.id: joiner.address}
        self._member = Member(
            self._worker.id,
            joiner.members,
            joiner.founders,
            addresses,
            joiner.inheritance.participation,
            joiner.spent,
            self,
        )
        self.audience_changed(self._member.audience)
        self.members_changed(self._member.members)

    def phases(self) -> dict[str, float]:
        """How long each phase of this worker's join took, in seconds."""
        return {
            str(phase.value): end_s - began_s
            for (phase, began_s), (_, end_s) in zip(self._phases, self._phases[1:], strict=False)
        }

    def _note(self, phase: Phase) -> None:
        now_s = self._worker.events.clock()
        if self._phases and self._worker.events.listening:
            last, began_s = self._phases[-1]
            self._worker.events.emit(JoinPhase(str(last.value), now_s - began_s))
        self._phases.append((phase, now_s))
        if phase is Phase.JOINED:
            spent = [f"{name} {1000 * spent_s:.1f}" for name, spent_s in self.phases().items()]
            total_ms = 1000 * (now_s - self._phases[0][1])
            self.tell(
                f"worker {self._worker.id} is in after {total_ms:.1f} ms: {', '.join(spent)}; "
                f"{self.inherited_bytes:,} bytes of progress state"
            )

    # Site

    def send(self, peer: WorkerId, message: Message) -> None:
        self._worker.transport.send(peer, message)

    def tell(self, what: str) -> None:
        _log.info("%s", what)

    def bound(self, joiner: WorkerId) -> None:
        reason = f"it took more than {JOIN_TIMEOUT_S:g} s"
        self._worker.after(JOIN_TIMEOUT_S, lambda: self._member.give_up(joiner, reason))

    def joined_by(self, joiner: WorkerId) -> None:
        self.complete.add(joiner)
        for callback in self.on_joined:
            callback(joiner)

    def wished(self, worker: WorkerId) -> None:
        for callback in self.on_wish:
            callback(worker)

    def members_changed(self, members: Members) -> None:
        self.audience_changed(self._member.audience)
        if self._worker.events.listening:
            self._worker.events.emit(MembersChanged(members))
        for callback in self.on_changed:
            callback(members)

    def audience_changed(self, audience: tuple[WorkerId, ...]) -> None:
        self._audience = audience

    def part_with(self, peer: WorkerId) -> None:
        self._worker.transport.part_with(peer)
