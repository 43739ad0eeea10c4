"""The step loop of a worker: what comes in, what is activated, what is scheduled, what goes out, and when it sleeps.

`step` reads top to bottom: receive, activate, schedule, flush. A worker knows its peers only through its `Transport`,
and the time of day only through its clock; the simulator and real processes drive the same class.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from framework.errors import JobAborted, JobStopped, PeerLost
from framework.events import Events, Parked
from framework.membership.driver import Membership
from framework.membership.members import Address, Members, WorkerId
from framework.progress.subgraph import ProgressUpdate
from framework.wire.messages import Abort, Built, Data, Goodbye, Lost, Message, Progress
from framework.worker.agenda import Agenda
from framework.worker.dataflow_state import WorkerDataflowState
from framework.worker.dataflows import Dataflows
from framework.worker.held_records import HeldRecords
from framework.worker.transport import Transport

_log = logging.getLogger("hailer.worker")


class Stepper:
    """The loop of one worker, and what it drives."""

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
        self.held = HeldRecords()
        self.dataflows = Dataflows(self.events)
        self.stepping = False
        self.parked = False
        """Whether it sleeps, and waits for something to do; other threads may look."""
        self.steps = 0
        self.agenda = Agenda()
        self.departed: set[WorkerId] = set()
        """Those who have said goodbye."""
        self._clock = clock
        self._ready: set[int] = set()
        self._unannounced: list[Built] = []
        self._stopping: str | None = None
        known = addresses or dict.fromkeys(members.workers, ("", 0))
        self.membership = Membership(self, WorkerDataflowState(worker, self.dataflows), members, dict(known))

    @property
    def members(self) -> Members:
        """The workers that records go to."""
        return self.membership.members

    # Stepping

    def step(self) -> bool:
        """Do what there is to do now; tell whether any dataflow is left."""
        assert not self.stepping, "a worker cannot step within a step"
        if self._stopping is not None:
            raise JobStopped(self._stopping)
        self.stepping = True
        roots = self.dataflows.roots
        try:
            if self.membership.joining:
                return self._step_joining()
            for sender, message in self.transport.receive():
                self._receive(sender, message)
            if self._unannounced:
                self._announce()
            self.agenda.run(self._clock(), self.congested())
            for number in sorted(self._ready):
                self._ready.discard(number)
                root = roots.get(number)
                if root is not None and not root.schedule() and number in roots:
                    self.drop_dataflow(number)
            self.membership.end_step()
            self.transport.flush()
        finally:
            self.stepping = False
            self.steps += 1
        return bool(roots)

    def _step_joining(self) -> bool:
        """A joiner that is no member yet only exchanges messages; who steps it after the state has come has built."""
        self.membership.enlist()
        for sender, message in self.transport.receive():
            self._receive(sender, message)
        self.transport.flush()
        return True

    def step_or_park(self, timeout_s: float | None = None) -> bool:
        """Step; if there is nothing to do, first sleep until there is, or until `timeout_s` have passed."""
        if not self._has_work() and (self.dataflows.roots or self.membership.active):
            self.park(timeout_s)
        return self.step()

    def _has_work(self) -> bool:
        if self.membership.joining:
            return self.membership.learned or self._stopping is not None
        return (
            bool(self._ready)
            or self.agenda.urgent()
            or self._stopping is not None
            or (self.agenda.waits_for_clear() and not self.congested())
        )

    def congested(self) -> bool:
        """Whether sources should pause: a peer is behind, or much waits for a joiner."""
        return self.held.full or self.transport.congested()

    def park(self, timeout_s: float | None) -> None:
        """Sleep until something arrives, a timer is due, or the time is over."""
        started_s = self._clock()
        due_s = self.agenda.due_at_s()
        if due_s is not None:
            until_due_s = max(0.0, due_s - started_s)
            timeout_s = until_due_s if timeout_s is None else min(timeout_s, until_due_s)
        self.parked = True
        try:
            self.transport.park(timeout_s)
        finally:
            self.parked = False
        if self.events.listening:
            self.events.emit(Parked(self._clock() - started_s))

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call `action` in this worker's thread, after `delay_s` seconds."""
        self.agenda.at(self._clock() + delay_s, action)

    def request_stop(self, reason: str) -> None:
        """Have the next step raise `JobStopped`; may be called from any thread or signal handler."""
        self._stopping = reason
        self.transport.wake()

    def log(self, text: str) -> None:
        """Tell the user what goes on."""
        _log.info("%s", text)

    # What runs

    def activate(self, number: int) -> None:
        """Have a dataflow scheduled in the next step."""
        self._ready.add(number)

    def drop_dataflow(self, number: int) -> None:
        """End a dataflow at once, whatever is under way in it; do so on every worker."""
        self.dataflows.drop(number)
        self._ready.discard(number)

    def shut_down(self) -> None:
        """End all dataflows at once."""
        for number in list(self.dataflows.roots):
            self.drop_dataflow(number)

    # What comes in

    def _receive(self, sender: WorkerId, message: Message) -> None:
        if isinstance(message, Data):
            self.dataflows.switchboard.dispatch(sender, message)
        elif isinstance(message, Progress):
            if self.membership.serving:
                self.membership.heard(sender, message)
            self.dataflows.switchboard.dispatch(sender, message)
        elif not self.membership.receive(sender, message):
            self._receive_from_member(sender, message)

    def _receive_from_member(self, sender: WorkerId, message: Message) -> None:
        match message:
            case Built(dataflow, fingerprint):
                self.dataflows.compare(dataflow, sender, fingerprint)
            case Goodbye():
                self.departed.add(sender)
                if sender not in self.members.workers and sender not in self.membership.audience:
                    self.transport.part_with(sender)
            case Abort(report):
                raise JobAborted(report)
            case Lost(detail):
                raise PeerLost(f"worker {self.id} lost worker {sender}: {detail}{self._how_far()}")

    def _how_far(self) -> str:
        """Up to where the dataflows are complete, for the report of a loss."""
        least = [
            f"dataflow {number} was complete before {min(times)}"
            for number, state in self.dataflows.progress_states().items()
            if (times := [time for (_, time), count in state.pointstamps.items() if count > 0])
        ]
        return "".join(f"; {one}" for one in least)

    # What goes out

    def broadcast_progress(self, channel: int, sequence: int, changes: tuple[ProgressUpdate, ...]) -> None:
        """Send a batch of progress to all other workers."""
        message = Progress(channel, sequence, changes)
        for peer in self.membership.audience:
            self.transport.send(peer, message)

    def announce(self, built: Built) -> None:
        """Tell all other workers of a dataflow that was built here; a joiner does once it is a member."""
        self._unannounced.append(built)
        if not self.membership.joining:
            self._announce()

    def _announce(self) -> None:
        for built in self._unannounced:
            self.broadcast(built)
        self._unannounced.clear()

    def broadcast(self, message: Message) -> None:
        """Send a message to all other members."""
        for peer in self.members.others(self.id):
            self.transport.send(peer, message)
