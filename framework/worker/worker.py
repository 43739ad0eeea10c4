"""A worker: builds dataflows and runs them, step by step.

`step` reads top to bottom: receive, activate, schedule, flush. The worker knows its peers only through its `Transport`,
and the time of day only through its clock; the simulator and real processes drive the same class.
"""

from __future__ import annotations

import time as monotonic
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b

from framework.dataflow.handle import InputHandle
from framework.dataflow.operator import Activator
from framework.dataflow.scope import Scope
from framework.errors import DataflowMismatch, GraphError, JobAborted, JobStopped, PeerLost
from framework.events import DataflowBuilt, DataflowFinished, Events, MessageReceived, MessageSent, Parked
from framework.membership import Address, Members, WorkerId
from framework.progress.domain import Domain, Region
from framework.progress.explain import scopes_of
from framework.progress.order import Time
from framework.progress.subgraph import Change, ProgressState, Subgraph
from framework.wire.container import Container
from framework.wire.messages import Abort, Built, Data, Goodbye, Lost, Message, Progress
from framework.worker.agenda import Agenda
from framework.worker.rescaling import Rescaling
from framework.worker.switchboard import Switchboard
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
        self.events = Events(worker, clock)
        self._clock = clock
        self.transport = transport
        self._agenda = Agenda()
        self._switchboard = Switchboard()
        self._channels: dict[int, InputHandle | Subgraph] = {}
        self._dataflows: dict[int, _Dataflow] = {}
        self.dataflows_built = 0
        self.fixed_operators: set[str] = set()
        """Those that keep keys on the workers that the job began with."""
        self._batches_sent: dict[int, int] = {}
        """By channel, of scopes that have ended."""
        self._fingerprints: dict[int, tuple[WorkerId, bytes]] = {}
        self._ready: set[int] = set()
        self._on_finish: list[Callable[[], None]] = []
        self._departed: set[WorkerId] = set()
        """Those who have said goodbye."""
        self._parted_from: set[WorkerId] = set()
        """Those whom this worker has said goodbye to."""
        self._stopping: str | None = None
        self._unannounced: list[Built] = []
        self.stepping = False
        self.steps = 0
        self.can_leave = False
        """Set by a program that looks at `asked_to_leave`, and leaves when it is true."""
        self.asked_to_leave = False
        known = addresses or dict.fromkeys(members.workers, ("", 0))
        self.rescaling = Rescaling(self, members, dict(known))

    @property
    def members(self) -> Members:
        """The workers that records go to."""
        return self.rescaling.members

    @property
    def index(self) -> int:
        """This worker's number."""
        return self.id

    @property
    def peers(self) -> int:
        """How many workers there are, this one included."""
        return len(self.members)

    # Joining and leaving

    def join(self, server: WorkerId, address: Address) -> None:
        """Begin to join the job that `server` works on; this worker's process listens at `address`.

        Step until `rescaling.learned`, then run the program; its `bootstrap` completes the join.
        """
        self.rescaling.begin_join(server, address, self.transport.reach)
        self.transport.flush()

    def bootstrap(self) -> bool:
        """Complete a join, once all dataflows are built; whether this worker joined a running job.

        On a worker that the job began with it does nothing. A program whose joiners feed no input of their own says
        `if worker.bootstrap(): return`.
        """
        while self.rescaling.joining:
            self.step_or_park()
        return self.rescaling.joined

    def leave(self) -> None:
        """Leave the job: close the inputs, have the bins taken away, let what is left drain, and part from the others.

        Bins are moved by whoever sends the job's commands, who hears of it through `rescaling.on_wish`. When it returns
        this worker is no longer part of the job, and its program should end.
        """
        self.rescaling.check_may_leave()
        self.close_inputs()
        if self.rescaling.objection() is not None:
            self.rescaling.wish_to_leave()
        while self._dataflows and self.rescaling.objection() is not None:
            self.step_or_park()
        if not self._dataflows:
            return  # the job has ended meanwhile
        self.rescaling.begin_leave()
        while not self.rescaling.gone:
            if not self._dataflows and not self.rescaling.leaving:
                self.rescaling.withdraw()
                return  # the job has ended, and nobody grants turns any more
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
        if self._dataflows:
            try:
                self.rescaling.check_may_leave()
            except GraphError as reason:
                self.rescaling.tell(f"{reason}; a second SIGTERM stops it")
                self.complete()
                return False
            self.leave()
        return self.rescaling.gone

    # Building

    @contextmanager
    def dataflow(self, name: str = "dataflow") -> Iterator[Scope]:
        """Build a dataflow within a `with` block; it runs from the block's end on, whenever the worker steps."""
        number = self.dataflows_built
        self.dataflows_built += 1
        first_channel = self._switchboard.reserved
        nesting = Region(Domain())
        scope = Scope(self, name, str(number), nesting, lambda: self._ready.add(number), None)
        try:
            yield scope
            root = scope.close()
            self._check_fingerprint(number, scope.description())
        except BaseException:
            scope.abandon()
            raise
        self._dataflows[number] = _Dataflow(root, range(first_channel, self._switchboard.reserved))
        self._ready.add(number)
        if self.events.listening:
            self.events.emit(DataflowBuilt(number, name, tuple(scope.operators())))

    def installed_dataflows(self) -> list[int]:
        """The numbers of the dataflows that are running."""
        return list(self._dataflows)

    def drop_dataflow(self, number: int) -> None:
        """End a dataflow at once, whatever is under way in it; do so on every worker."""
        dataflow = self._dataflows.pop(number, None)
        if dataflow is None:
            raise GraphError(f"there is no dataflow {number}; running are {self.installed_dataflows()}")
        dataflow.root.shut_down()
        self._switchboard.close(dataflow.channels)
        for channel in dataflow.channels:
            end = self._channels.pop(channel, None)
            if isinstance(end, Subgraph):
                self._batches_sent[channel] = end.batches_sent
        self._ready.discard(number)
        if self.events.listening:
            self.events.emit(DataflowFinished(number))

    def reserve_channel(self) -> int:
        """The number of a new channel."""
        return self._switchboard.reserve()

    def open_channel(self, handle: InputHandle, sender: str) -> WorkerChannel:
        """An edge that ends at `handle` and begins at the operator named `sender`."""
        channel = self._switchboard.reserve()

        def receive(peer: WorkerId, message: Data | Progress) -> None:
            assert isinstance(message, Data), message
            handle.push(message.time, message.container)
            if self.events.listening:
                self.events.emit(MessageReceived(channel, peer, len(message.container)))

        self._channels[channel] = handle
        self._switchboard.open(channel, receive)
        return WorkerChannel(self, channel, handle, sender)

    def open_progress_channel(self, channel: int, subgraph: Subgraph) -> None:
        """Hand batches of progress that come in on `channel` to a scope."""

        def receive(peer: WorkerId, message: Data | Progress) -> None:
            assert isinstance(message, Progress), message
            subgraph.receive(peer, message.sequence, message.changes)

        self._channels[channel] = subgraph
        self._switchboard.open(channel, receive)

    def activator(self, activate: Callable[[], None]) -> Activator:
        """The ways to have `activate` called."""

        def from_thread() -> None:
            self._agenda.from_thread(activate)
            self.transport.wake()

        return Activator(
            activate=activate,
            activate_from_thread=from_thread,
            activate_after=lambda delay_s: self._agenda.at(self._clock() + delay_s, activate),
            activate_when_clear=lambda: self._agenda.when_clear(activate),
        )

    def on_finish(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the program has returned and only what is under way remains to be done."""
        self._on_finish.append(callback)

    # Sending

    def send_data(self, channel: int, peer: WorkerId, time: Time, container: Container, sender: str) -> None:
        """Send a container to another worker."""
        if self.rescaling.joining:
            raise GraphError(f"worker {self.id} has not joined yet; call worker.bootstrap() before it sends records")
        self.transport.send(peer, Data(channel, time, container), where=f"operator {sender!r}")
        if self.events.listening:
            self.events.emit(MessageSent(channel, peer, len(container)))

    def broadcast_progress(self, channel: int, sequence: int, changes: tuple[Change, ...]) -> None:
        """Send a batch of progress to all other workers."""
        message = Progress(channel, sequence, changes)
        for peer in self.rescaling.audience:
            self.transport.send(peer, message)

    def _broadcast(self, message: Message) -> None:
        for peer in self.members.others(self.id):
            self.transport.send(peer, message)

    def congested(self) -> bool:
        """Whether sources should pause because a peer is behind."""
        return self.transport.congested()

    # Running

    def step(self) -> bool:
        """Do what there is to do now; tell whether any dataflow is left."""
        assert not self.stepping, "a worker cannot step within a step"
        if self._stopping is not None:
            raise JobStopped(self._stopping)
        self.stepping = True
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
                dataflow = self._dataflows.get(number)
                if dataflow is not None and not dataflow.root.schedule() and number in self._dataflows:
                    self.drop_dataflow(number)
            self.rescaling.end_step()
            self.transport.flush()
        finally:
            self.stepping = False
            self.steps += 1
        return bool(self._dataflows)

    def _step_joining(self) -> bool:
        """A joiner that is no member yet only exchanges messages; who steps it after the state has come has built."""
        self.rescaling.enlist()
        for sender, message in self.transport.receive():
            self._receive(sender, message)
        self.transport.flush()
        return True

    def step_or_park(self, timeout_s: float | None = None) -> bool:
        """Step; if there is nothing to do, first sleep until there is, or until `timeout_s` have passed."""
        if not self._has_work() and (self._dataflows or self.rescaling.active):
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

    def _receive(self, sender: WorkerId, message: Message) -> None:
        if self.rescaling.receive(sender, message):
            return
        match message:
            case Data() | Progress():
                self._switchboard.dispatch(sender, message)
            case Built(dataflow, fingerprint):
                self._compare(dataflow, sender, fingerprint)
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
            for number, state in self.progress_states().items()
            if (times := [time for (_, time), count in state.pointstamps.items() if count > 0])
        ]
        return "".join(f"; {one}" for one in least)

    # Agreement on what was built

    def _check_fingerprint(self, number: int, description: str) -> None:
        fingerprint = blake2b(description.encode(), digest_size=16).digest()
        self.rescaling.check_fingerprint(number, fingerprint)
        self._compare(number, self.id, fingerprint)
        self._unannounced.append(Built(number, fingerprint))
        if not self.rescaling.joining:
            self._announce()

    def _announce(self) -> None:
        for built in self._unannounced:
            self._broadcast(built)
        self._unannounced.clear()

    def _compare(self, number: int, worker: WorkerId, fingerprint: bytes) -> None:
        first, known = self._fingerprints.setdefault(number, (worker, fingerprint))
        if fingerprint != known:
            raise DataflowMismatch(
                f"workers {first} and {worker} built different dataflows (number {number}); build the same operators "
                f"in the same order on every worker, and keep what differs, such as `if worker.index == 0`, out of it"
            )

    # Ending

    @property
    def leaves_when_asked(self) -> bool:
        """Whether asking this worker to leave has an effect: its program looks out for that, or it joined and will."""
        return (self.can_leave or self.rescaling.joined) and self.rescaling.may_leave

    def ask_to_leave(self) -> None:
        """Have the program leave when it looks at `asked_to_leave` next; may be called from any thread or handler."""
        self.asked_to_leave = True
        self.transport.wake()

    def request_stop(self, reason: str) -> None:
        """Have the next step raise `JobStopped`; may be called from any thread or signal handler."""
        self._stopping = reason
        self.transport.wake()

    def close_inputs(self) -> None:
        """The program has returned: nobody can feed its inputs any more."""
        for callback in self._on_finish:
            callback()
        self._on_finish.clear()

    def complete(self) -> None:
        """Close the inputs and run until every dataflow is complete."""
        self.close_inputs()
        while self._dataflows:
            self.step_or_park()

    def finish(self) -> None:
        """Complete every dataflow, if this worker has not left, and part from the peers."""
        self.bootstrap()
        if not self.rescaling.gone:
            self.rescaling.check_built()
            if not (self.rescaling.joined and self.stay()):
                self.complete()
        while not self.part():
            self._park(None)
            self.step()

    def part(self) -> bool:
        """Say goodbye to those who have not heard it; whether they all have said theirs, or this worker has left.

        While others join or leave, and this worker has to do with it, it says nothing yet: they need it.
        """
        self.rescaling.close()
        if self.rescaling.engaged:
            self.transport.flush()
            return False
        others = set(self.members.others(self.id))
        for peer in sorted(others - self._parted_from):
            self.transport.send(peer, Goodbye())
            self._parted_from.add(peer)
        self.transport.flush()
        return self.rescaling.gone or not others - self._departed

    def abort(self, report: str) -> None:
        """Give everything up, and tell the peers that the job has failed; they end too."""
        self.shut_down()
        self._broadcast(Abort(report))
        self.transport.flush()

    def shut_down(self) -> None:
        """End all dataflows at once."""
        for number in self.installed_dataflows():
            self.drop_dataflow(number)

    # Looking in

    @property
    def channels_built(self) -> int:
        """How many channels were given out."""
        return self._switchboard.reserved

    def scopes(self) -> dict[int, Subgraph]:
        """The running scopes, nested ones included, by the channel that their progress takes."""
        return {channel: end for channel, end in self._channels.items() if isinstance(end, Subgraph)}

    def batches_sent(self) -> dict[int, int]:
        """By channel, how many batches of progress each scope has sent, those that have ended included."""
        return {**self._batches_sent, **{channel: scope.batches_sent for channel, scope in self.scopes().items()}}

    def scopes_by_dataflow(self) -> dict[int, list[Subgraph]]:
        """The running scopes, nested ones included, of each dataflow."""
        return {number: [*scopes_of(dataflow.root).values()] for number, dataflow in self._dataflows.items()}

    def fingerprints(self) -> dict[int, bytes]:
        """Those of the dataflows that were built here."""
        return {
            number: fingerprint
            for number, (_, fingerprint) in self._fingerprints.items()
            if number < self.dataflows_built
        }

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call `action` in this worker's thread, once so many seconds have passed."""
        self._agenda.at(self._clock() + delay_s, action)

    def dataflows(self) -> dict[int, Subgraph]:
        """The outermost scope of each running dataflow."""
        return {number: dataflow.root for number, dataflow in self._dataflows.items()}

    def channels(self) -> dict[int, InputHandle | Subgraph]:
        """Where each channel ends: at an operator's input (records), or at a scope (progress)."""
        return self._channels

    def early(self) -> list[tuple[WorkerId, Data | Progress]]:
        """Messages for dataflows that are not built yet."""
        return self._switchboard.early()

    def traffic(self) -> Traffic:
        """What went to other processes so far."""
        return self.transport.traffic

    def progress_states(self) -> dict[int, ProgressState]:
        """What each dataflow's outermost scope has heard so far."""
        return {number: dataflow.root.progress_state() for number, dataflow in self._dataflows.items()}


class _Dataflow:
    """A running dataflow and the channels that it uses."""

    __slots__ = ("channels", "root")

    def __init__(self, root: Subgraph, channels: range) -> None:
        self.root = root
        self.channels = channels


class WorkerChannel:
    """One edge of the dataflow graph on one worker."""

    __slots__ = ("_number", "_owner", "_receiver", "_sender", "deliver")

    def __init__(self, owner: Worker, number: int, handle: InputHandle, sender: str) -> None:
        self._owner = owner
        self._number = number
        self._sender = sender
        self._receiver = handle.operator_name
        self.deliver = handle.push

    @property
    def worker(self) -> WorkerId:
        """This worker."""
        return self._owner.id

    def members(self) -> Members:
        """All workers, as of now."""
        return self._owner.members

    def founders(self) -> tuple[WorkerId, ...]:
        """The workers that the job began with."""
        self._owner.fixed_operators.add(self._receiver)
        return self._owner.rescaling.founders

    def send(self, peer: WorkerId, time: Time, container: Container) -> None:
        """Hand a container to the receiver on another worker."""
        self._owner.send_data(self._number, peer, time, container, self._sender)
