"""The step loop of a worker: what comes in, what is activated, what is scheduled, what goes out, and when it sleeps.

`step` reads top to bottom: receive, activate, schedule, flush. A worker knows its peers only through its `Transport`,
and the time of day only through its clock; the simulator and real processes drive the same class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from framework.errors import GraphError, JobAborted, JobStopped, PeerLost
from framework.events import Events, MessageSent, Parked
from framework.membership.driver import Rescaling
from framework.membership.members import Address, Members, WorkerId
from framework.progress.subgraph import Change
from framework.wire.container import Reservation
from framework.wire.messages import Abort, Built, Data, Goodbye, Lost, Message, Progress
from framework.worker.agenda import Agenda
from framework.worker.dataflows import Dataflows
from framework.worker.transport import Transport


class Stepper:
    """What of a worker runs its dataflows; a `Worker` is what its program sees."""

    def __init__(
        self,
        worker: WorkerId,
        members: Members,
        transport: Transport,
        clock: Callable[[], float],
        addresses: Mapping[WorkerId, Address] | None,
    ) -> None:
        self.id = worker
        self.events = Events(worker, clock)
        self.transport = transport
        self.installed = Dataflows(self.events)
        self.stepping = False
        self.steps = 0
        self._clock = clock
        self._agenda = Agenda()
        self._ready: set[int] = set()
        self._unannounced: list[Built] = []
        self._stopping: str | None = None
        self._departed: set[WorkerId] = set()
        """Those who have said goodbye."""
        known = addresses or dict.fromkeys(members.workers, ("", 0))
        self.rescaling = Rescaling(self, members, dict(known))

    @property
    def members(self) -> Members:
        """The workers that records go to."""
        return self.rescaling.members

    # Stepping

    def step(self) -> bool:
        """Do what there is to do now; tell whether any dataflow is left."""
        assert not self.stepping, "a worker cannot step within a step"
        if self._stopping is not None:
            raise JobStopped(self._stopping)
        self.stepping = True
        roots = self.installed.roots
        try:
            if self.rescaling.joining:
                return self._step_joining()
            for sender, message in self.transport.receive():
                self._receive(sender, message)
            if self._unannounced:
                self._announce()
            self._agenda.run(self._clock(), self.transport.congested())
            for number in sorted(self._ready):
                self._ready.discard(number)
                root = roots.get(number)
                if root is not None and not root.schedule() and number in roots:
                    self.drop_dataflow(number)
            self.rescaling.end_step()
            self.transport.flush()
        finally:
            self.stepping = False
            self.steps += 1
        return bool(roots)

    def _step_joining(self) -> bool:
        """A joiner that is no member yet only exchanges messages; who steps it after the state has come has built."""
        self.rescaling.enlist()
        for sender, message in self.transport.receive():
            self._receive(sender, message)
        self.transport.flush()
        return True

    def step_or_park(self, timeout_s: float | None = None) -> bool:
        """Step; if there is nothing to do, first sleep until there is, or until `timeout_s` have passed."""
        if not self._has_work() and (self.installed.roots or self.rescaling.active):
            self._park(timeout_s)
        return self.step()

    def step_while(self, condition: Callable[[], bool]) -> None:
        """Step, sleeping in between, for as long as `condition` holds and any dataflow is left."""
        while condition() and self.step_or_park():
            pass

    def _has_work(self) -> bool:
        if self.rescaling.joining:
            return self.rescaling.learned or self._stopping is not None
        return (
            bool(self._ready)
            or self._agenda.urgent()
            or self._stopping is not None
            or (self._agenda.waits_for_clear() and not self.transport.congested())
        )

    def _park(self, timeout_s: float | None) -> None:
        started_s = self._clock()
        due_s = self._agenda.due_at_s()
        if due_s is not None:
            until_due_s = max(0.0, due_s - started_s)
            timeout_s = until_due_s if timeout_s is None else min(timeout_s, until_due_s)
        self.transport.park(timeout_s)
        if self.events.listening:
            self.events.emit(Parked(self._clock() - started_s))

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call `action` in this worker's thread, once so many seconds have passed."""
        self._agenda.at(self._clock() + delay_s, action)

    def request_stop(self, reason: str) -> None:
        """Have the next step raise `JobStopped`; may be called from any thread or signal handler."""
        self._stopping = reason
        self.transport.wake()

    # What runs

    def installed_dataflows(self) -> list[int]:
        """The numbers of the dataflows that are running."""
        return list(self.installed.roots)

    def drop_dataflow(self, number: int) -> None:
        """End a dataflow at once, whatever is under way in it; do so on every worker."""
        self.installed.drop(number)
        self._ready.discard(number)

    def shut_down(self) -> None:
        """End all dataflows at once."""
        for number in self.installed_dataflows():
            self.drop_dataflow(number)

    # What comes in

    def _receive(self, sender: WorkerId, message: Message) -> None:
        if self.rescaling.receive(sender, message):
            return
        match message:
            case Data() | Progress():
                self.installed.switchboard.dispatch(sender, message)
            case Built(dataflow, fingerprint):
                self.installed.compare(dataflow, sender, fingerprint)
            case Goodbye():
                self._departed.add(sender)
                if sender not in self.members.workers and sender not in self.rescaling.audience:
                    self.transport.part_with(sender)
            case Abort(report):
                raise JobAborted(report)
            case Lost(detail):
                raise PeerLost(f"worker {self.id} lost worker {sender}: {detail}{self._how_far()}")

    def _how_far(self) -> str:
        """Up to where the dataflows are complete, for the report of a loss."""
        least = [
            f"dataflow {number} was complete before {min(times)}"
            for number, state in self.installed.progress_states().items()
            if (times := [time for (_, time), count in state.pointstamps.items() if count > 0])
        ]
        return "".join(f"; {one}" for one in least)

    # What goes out

    def send_data(self, peer: WorkerId, message: Data, where: str, reservation: Reservation | None = None) -> None:
        """Send a container to another worker; `where` is who it is from."""
        if self.rescaling.joining:
            raise GraphError(f"worker {self.id} has not joined yet; call worker.bootstrap() before it sends records")
        self.transport.send(peer, message, where, reservation)
        if self.events.listening:
            self.events.emit(MessageSent(message.channel, peer, len(message.container)))

    def broadcast_progress(self, channel: int, sequence: int, changes: tuple[Change, ...]) -> None:
        """Send a batch of progress to all other workers."""
        message = Progress(channel, sequence, changes)
        for peer in self.rescaling.audience:
            self.transport.send(peer, message)

    def congested(self) -> bool:
        """Whether sources should pause because a peer is behind."""
        return self.transport.congested()

    def _announce(self) -> None:
        for built in self._unannounced:
            self._broadcast(built)
        self._unannounced.clear()

    def _broadcast(self, message: Message) -> None:
        for peer in self.members.others(self.id):
            self.transport.send(peer, message)
