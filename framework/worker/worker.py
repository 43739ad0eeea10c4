"""A worker, as its program sees it: builds dataflows, takes part in the job, joins it late, leaves it early, ends.

Running what was built is `Stepper`'s; who takes part, and the protocols by which that changes, are `Membership`'s. To
the scopes that are built on it, a worker is a `WorkerContext`.
"""

from __future__ import annotations

import time as monotonic
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from framework.dataflow.handle import InputHandle, Pusher
from framework.dataflow.operator import Activator
from framework.dataflow.pact import Pact
from framework.dataflow.scope import Scope
from framework.errors import GraphError, PeerRefused
from framework.events import DataflowBuilt
from framework.membership.inheritance import Inheritance
from framework.membership.members import Address, Members, WorkerId
from framework.progress.domain import Domain, Region
from framework.progress.order import Time
from framework.progress.subgraph import ProgressState, ProgressUpdate, Subgraph
from framework.wire.container import Container
from framework.wire.messages import Abort, Built, Data, Goodbye, Progress
from framework.worker.channel import WorkerChannel
from framework.worker.dataflows import fingerprint_of
from framework.worker.stepper import Stepper
from framework.worker.transport import Traffic, Transport


class Worker:
    """One thread of a computation."""

    def __init__(
        self,
        worker: WorkerId,
        members: Members,
        transport: Transport,
        clock: Callable[[], float] = monotonic.monotonic,
        args: Sequence[str] = (),
        addresses: Mapping[WorkerId, Address] | None = None,
    ) -> None:
        self.id = worker
        self.args = tuple(args)
        self.transport = transport
        self._stepper = Stepper(worker, members, transport, clock, addresses)
        self._dataflows = self._stepper.dataflows
        self.events = self._stepper.events
        self.membership = self._stepper.membership
        self.can_leave = False
        """Set by a program that looks at `asked_to_leave`, and leaves when it is true."""
        self.asked_to_leave = False
        self._on_finish: list[Callable[[], None]] = []
        self._parted_from: set[WorkerId] = set()
        """Those whom this worker has said goodbye to."""

    @property
    def index(self) -> int:
        """This worker's number."""
        return self.id

    @property
    def peers(self) -> int:
        """How many workers there are, this one included."""
        return len(self.members)

    @property
    def members(self) -> Members:
        """The workers that records go to."""
        return self.membership.members

    @property
    def founders(self) -> tuple[WorkerId, ...]:
        """The workers that the job began with."""
        return self.membership.founders

    def has_joined(self, worker: WorkerId) -> bool:
        """Whether `worker` has joined since this one is here: for good, and every member's records go to it."""
        return worker in self.membership.complete

    @property
    def draining(self) -> bool:
        """Whether somebody who leaves is a member no more, and may still have records: what is broadcast misses it."""
        return self.membership.draining

    # Stepping

    def step(self) -> bool:
        """Do what there is to do now; tell whether any dataflow is left."""
        return self._stepper.step()

    def step_or_park(self, timeout_s: float | None = None) -> bool:
        """Step; if there is nothing to do, first sleep until there is, or until `timeout_s` have passed."""
        return self._stepper.step_or_park(timeout_s)

    def step_while(self, condition: Callable[[], bool]) -> None:
        """Step, sleeping in between, for as long as `condition` holds and any dataflow is left."""
        while condition() and self._stepper.step_or_park():
            pass

    @property
    def stepping(self) -> bool:
        """Whether a step is under way."""
        return self._stepper.stepping

    @property
    def steps(self) -> int:
        """How many there were."""
        return self._stepper.steps

    @property
    def parked(self) -> bool:
        """Whether it sleeps until there is something to do."""
        return self._stepper.parked

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call `action` in this worker's thread, after `delay_s` seconds."""
        self._stepper.after(delay_s, action)

    def congested(self) -> bool:
        """Whether sources should pause because a peer is behind."""
        return self._stepper.congested()

    def flush(self) -> None:
        """Send the others what is queued for them now, rather than at the end of the next step. Never blocks."""
        self.transport.flush()

    def request_stop(self, reason: str) -> None:
        """Have the next step raise `JobStopped`; may be called from any thread or signal handler."""
        self._stepper.request_stop(reason)

    def log(self, text: str) -> None:
        """Tell the user what goes on."""
        self._stepper.log(text)

    # Building

    @contextmanager
    def dataflow(self, name: str = "dataflow") -> Iterator[Scope]:
        """Build a dataflow within a `with` block; it runs from the block's end on, whenever the worker steps."""
        number = self._dataflows.begin()
        first_channel = self._dataflows.switchboard.reserved
        nesting = Region(Domain())
        scope = Scope(self, name, str(number), nesting, partial(self._stepper.activate, number), None)
        try:
            yield scope
            root = scope.close()
            self._announce_built(number, fingerprint_of(scope.description()))
        except BaseException:
            scope.abandon()
            raise
        self._dataflows.add(number, root, first_channel)
        self._stepper.activate(number)
        if self.events.listening:
            self.events.emit(DataflowBuilt(number, name, tuple(scope.operators())))

    def _announce_built(self, number: int, fingerprint: bytes) -> None:
        self.inheritance.check_fingerprint(number, fingerprint)
        self._dataflows.compare(number, self.id, fingerprint)
        self._stepper.announce(Built(number, fingerprint))

    # What scopes need to be built

    @property
    def inheritance(self) -> Inheritance:
        """What this worker begins with."""
        return self.membership.inheritance

    def starters(self, dataflow: int) -> int:
        """How many workers start a dataflow with the capabilities that everybody starts with."""
        return self.membership.starters(dataflow)

    def reserve_channel(self) -> int:
        """The number of a new channel."""
        return self._dataflows.switchboard.reserve()

    def open_channel(self, handle: InputHandle, sender: str, pact: Pact) -> Pusher:
        """What routes containers along an edge that ends at `handle` and begins at the operator named `sender`."""
        return WorkerChannel(self._stepper, self._dataflows.open_data(handle), handle, sender, pact).push

    def open_progress(self, channel: int, subgraph: Subgraph) -> None:
        """Hand batches of progress that come in on `channel` to a scope."""
        self._dataflows.switchboard.open(channel, subgraph)

    def broadcaster(self, channel: int) -> Callable[[int, tuple[ProgressUpdate, ...]], None]:
        """What sends a numbered batch of progress to all other workers."""
        return partial(self._stepper.broadcast_progress, channel)

    def activator(self, activate: Callable[[], None]) -> Activator:
        """The ways to have `activate` called."""

        def from_thread() -> None:
            self._stepper.agenda.from_thread(activate)
            self.transport.wake()

        return Activator(
            activate=activate,
            activate_from_thread=from_thread,
            activate_after=lambda delay_s: self.after(delay_s, activate),
            activate_when_clear=lambda: self._stepper.agenda.when_clear(activate),
        )

    def on_finish(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the program has returned and only what is under way remains to be done."""
        self._on_finish.append(callback)

    def object_to_leaving(self, objection: Callable[[], str | None]) -> Callable[[], None]:
        """Ask `objection` what is in the way, if anything, before this worker leaves; returns what ends that."""
        objections = self.membership.obstacles.objections
        objections.append(objection)
        return lambda: objections.remove(objection)

    # Joining and leaving

    def join(self, server: WorkerId, address: Address) -> None:
        """Begin to join the job that `server` works on; this worker's process listens at `address`.

        Step until `membership.learned`, then run the program; its `bootstrap` completes the join.
        """
        self.membership.join(server, address)
        self.transport.flush()

    def bootstrap(self) -> bool:
        """Complete a join, once all dataflows are built; whether this worker joined a running job.

        On a worker that the job began with it does nothing. A program whose joiners feed no input of their own says
        `if worker.bootstrap(): return`.
        """
        while self.membership.joining:
            self.step_or_park()
        return self.membership.joined

    @property
    def leaves_when_asked(self) -> bool:
        """Whether asking this worker to leave has an effect: its program looks out for that, or it joined and will."""
        return (self.can_leave or self.membership.joined) and self.membership.obstacles.passable

    def ask_to_leave(self) -> None:
        """Have the program leave when it looks at `asked_to_leave` next; may be called from any thread or handler."""
        self.asked_to_leave = True
        self.transport.wake()

    def leave(self) -> None:
        """Leave the job: close the inputs, have the bins taken away, let what is left drain, and part from the others.

        Bins are moved by the worker that sends the job's commands, which hears of it through `membership.on_wish`. When
        it returns, this worker is no longer part of the job, and its program should end.
        """
        running, membership = self._dataflows.roots, self.membership
        membership.obstacles.check()
        self.close_inputs()
        if membership.obstacles.objection() is not None:
            membership.wish_to_leave()
        while running and membership.obstacles.objection() is not None:
            self.step_or_park()
        if not running:
            return  # the job has ended meanwhile
        membership.begin_leave()
        while not membership.gone:
            if membership.refusal is not None:
                raise PeerRefused(membership.refusal)
            if not running and not membership.leaving:
                membership.withdraw()
                return  # the job has ended, and no more turns are granted
            self.step_or_park()
        self.shut_down()

    def stay(self) -> bool:
        """Take part until all dataflows are complete, or leave when asked to (SIGTERM); whether it has left.

        For a worker that feeds nothing any more. One that cannot leave says why, and stays.
        """
        self.close_inputs()
        self.can_leave = True
        self.step_while(lambda: not self.asked_to_leave)
        self.can_leave = False
        if self._dataflows.roots:
            try:
                self.membership.obstacles.check()
                self.leave()
            except (GraphError, PeerRefused) as reason:  # meanwhile all others may have left
                self.log(f"{reason}; a second SIGTERM stops it")
                self.complete()
                return False
        return self.membership.gone

    # Ending

    def close_inputs(self) -> None:
        """The program has returned: nobody can feed its inputs any more."""
        for callback in self._on_finish:
            callback()
        self._on_finish.clear()

    def complete(self) -> None:
        """Close the inputs and run until every dataflow is complete."""
        self.close_inputs()
        while self._dataflows.roots:
            self.step_or_park()

    def finish(self) -> None:
        """Complete every dataflow, if this worker has not left, and part from the peers."""
        self.bootstrap()
        if not self.membership.gone:
            self.membership.check_built()
            if not (self.membership.joined and self.stay()):
                self.complete()
        while not self.part():
            self._stepper.park(None)
            self.step()

    def part(self) -> bool:
        """Say goodbye to those who have not heard it; whether they all have said theirs, or this worker has left.

        While others join or leave, and this worker has to do with it, it says nothing yet: they need it.
        """
        self.membership.close()
        if self.membership.engaged:
            self.transport.flush()
            return False
        others = set(self.members.others(self.id))
        for peer in sorted(others - self._parted_from):
            self.transport.send(peer, Goodbye())
            self._parted_from.add(peer)
        self.transport.flush()
        return self.membership.gone or not others - self._stepper.departed

    def drop_dataflow(self, number: int) -> None:
        """End a dataflow at once, whatever is under way in it; do so on every worker."""
        self._stepper.drop_dataflow(number)

    def shut_down(self) -> None:
        """End all dataflows at once."""
        self._stepper.shut_down()

    def abort(self, report: str) -> None:
        """Give everything up, and tell the peers that the job has failed; they end too."""
        self.shut_down()
        self._stepper.broadcast(Abort(report))
        self.transport.flush()

    # Looking in

    @property
    def dataflows_built(self) -> int:
        """How many dataflows were begun here."""
        return self._dataflows.built

    def installed_dataflows(self) -> list[int]:
        """The numbers of the dataflows that are running."""
        return list(self._dataflows.roots)

    def dataflows(self) -> dict[int, Subgraph]:
        """The outermost scope of each running dataflow."""
        return dict(self._dataflows.roots)

    def progress_states(self) -> dict[int, ProgressState]:
        """What each dataflow's outermost scope has heard so far."""
        return self._dataflows.progress_states()

    def channels(self) -> dict[int, InputHandle | Subgraph]:
        """Where each channel ends: at an operator's input (records), or at a scope (progress)."""
        return self._dataflows.switchboard.ends

    def batches_sent(self) -> dict[int, int]:
        """By channel, how many batches of progress each scope has sent, those that have ended included."""
        return self._dataflows.batches_sent()

    def early(self) -> list[tuple[WorkerId, Data | Progress]]:
        """Messages for dataflows that are not built yet."""
        return self._dataflows.early()

    def held(self) -> list[tuple[int, Time, Container]]:
        """By channel, what is held back for a joiner that has not joined."""
        return self._stepper.held.all()

    def traffic(self) -> Traffic:
        """What went to other processes so far."""
        return self.transport.traffic
