"""A worker: builds dataflows and runs them, step by step.

`step` reads top to bottom: receive, activate, schedule, flush. The worker knows its peers only through its `Transport`,
and the time of day only through its clock; the simulator and real processes drive the same class.
"""

from __future__ import annotations

import time as monotonic
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b

from framework.dataflow.handle import InputHandle
from framework.dataflow.operator import Activator
from framework.dataflow.scope import Scope
from framework.errors import DataflowMismatch, GraphError, JobAborted, JobStopped, PeerLost
from framework.events import DataflowBuilt, DataflowFinished, Events, MessageReceived, MessageSent, Parked
from framework.membership import Members, WorkerId
from framework.progress.domain import Domain, Region
from framework.progress.order import Time
from framework.progress.subgraph import Change, ProgressState, Subgraph
from framework.wire.container import Container
from framework.wire.messages import Abort, Built, Data, Goodbye, Lost, Message, Progress
from framework.worker.agenda import Agenda
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
    ) -> None:
        self.id = worker
        self.members = members
        self.args = tuple(args)
        self.events = Events(worker, clock)
        self._clock = clock
        self._transport = transport
        self._agenda = Agenda()
        self._switchboard = Switchboard()
        self._channels: dict[int, InputHandle | Subgraph] = {}
        self._dataflows: dict[int, _Dataflow] = {}
        self._dataflows_built = 0
        self._fingerprints: dict[int, tuple[WorkerId, bytes]] = {}
        self._ready: set[int] = set()
        self._on_finish: list[Callable[[], None]] = []
        self._departed: set[WorkerId] = set()
        self._stopping: str | None = None
        self.stepping = False
        self.steps = 0

    @property
    def index(self) -> int:
        """This worker's number."""
        return self.id

    @property
    def peers(self) -> int:
        """How many workers there are, this one included."""
        return len(self.members)

    # Building

    @contextmanager
    def dataflow(self, name: str = "dataflow") -> Iterator[Scope]:
        """Build a dataflow within a `with` block; it runs from the block's end on, whenever the worker steps."""
        number = self._dataflows_built
        self._dataflows_built += 1
        first_channel = self._switchboard.reserved
        nesting = Region(Domain())
        scope = Scope(self, name, str(number), nesting, lambda: self._ready.add(number), None)
        try:
            yield scope
            root = scope.close()
        except BaseException:
            scope.abandon()
            raise
        self._dataflows[number] = _Dataflow(root, range(first_channel, self._switchboard.reserved))
        self._ready.add(number)
        self._announce(number, scope.description())
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
            self._channels.pop(channel, None)
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
            self._transport.wake()

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
        self._transport.send(peer, Data(channel, time, container), where=f"operator {sender!r}")
        if self.events.listening:
            self.events.emit(MessageSent(channel, peer, len(container)))

    def broadcast_progress(self, channel: int, sequence: int, changes: tuple[Change, ...]) -> None:
        """Send a batch of progress to all other workers."""
        self._broadcast(Progress(channel, sequence, changes))

    def _broadcast(self, message: Message) -> None:
        for peer in self.members.others(self.id):
            self._transport.send(peer, message)

    def congested(self) -> bool:
        """Whether sources should pause because a peer is behind."""
        return self._transport.congested()

    # Running

    def step(self) -> bool:
        """Do what there is to do now; tell whether any dataflow is left."""
        assert not self.stepping, "a worker cannot step within a step"
        if self._stopping is not None:
            raise JobStopped(self._stopping)
        self.stepping = True
        try:
            for sender, message in self._transport.receive():
                self._receive(sender, message)
            self._agenda.run(self._clock(), self._transport.congested())
            for number in sorted(self._ready):
                self._ready.discard(number)
                dataflow = self._dataflows.get(number)
                if dataflow is not None and not dataflow.root.schedule() and number in self._dataflows:
                    self.drop_dataflow(number)
            self._transport.flush()
        finally:
            self.stepping = False
            self.steps += 1
        return bool(self._dataflows)

    def step_or_park(self, timeout_s: float | None = None) -> bool:
        """Step; if there is nothing to do, first sleep until there is, or until `timeout_s` have passed."""
        if not self._has_work() and self._dataflows:
            self._park(timeout_s)
        return self.step()

    def step_while(self, condition: Callable[[], bool]) -> None:
        """Step, sleeping in between, for as long as `condition` holds and any dataflow is left."""
        while condition() and self.step_or_park():
            pass

    def _has_work(self) -> bool:
        return (
            bool(self._ready)
            or self._agenda.urgent()
            or self._stopping is not None
            or (self._agenda.waits_for_clear() and not self._transport.congested())
        )

    def _park(self, timeout_s: float | None) -> None:
        started_s = self._clock()
        due_s = self._agenda.due_at_s()
        if due_s is not None:
            until_due_s = max(0.0, due_s - started_s)
            timeout_s = until_due_s if timeout_s is None else min(timeout_s, until_due_s)
        self._transport.park(timeout_s)
        if self.events.listening:
            self.events.emit(Parked(self._clock() - started_s))

    def _receive(self, sender: WorkerId, message: Message) -> None:
        match message:
            case Data() | Progress():
                self._switchboard.dispatch(sender, message)
            case Built(dataflow, fingerprint):
                self._compare(dataflow, sender, fingerprint)
            case Goodbye():
                self._departed.add(sender)
            case Abort(report):
                raise JobAborted(report)
            case Lost(detail):
                raise PeerLost(f"worker {self.id} lost worker {sender}: {detail}")

    # Agreement on what was built

    def _announce(self, number: int, description: str) -> None:
        fingerprint = blake2b(description.encode(), digest_size=16).digest()
        self._compare(number, self.id, fingerprint)
        self._broadcast(Built(number, fingerprint))

    def _compare(self, number: int, worker: WorkerId, fingerprint: bytes) -> None:
        first, known = self._fingerprints.setdefault(number, (worker, fingerprint))
        if fingerprint != known:
            raise DataflowMismatch(
                f"workers {first} and {worker} built different dataflows (number {number}); build the same operators "
                f"in the same order on every worker, and keep what differs, such as `if worker.index == 0`, out of it"
            )

    # Ending

    def request_stop(self, reason: str) -> None:
        """Have the next step raise `JobStopped`; may be called from any thread or signal handler."""
        self._stopping = reason
        self._transport.wake()

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
        """Complete every dataflow and part from the peers."""
        self.complete()
        self._broadcast(Goodbye())
        self._transport.flush()
        while set(self.members.others(self.id)) - self._departed:
            self._transport.park(None)
            self.step()

    def abort(self, report: str) -> None:
        """Give everything up, and tell the peers that the job has failed; they end too."""
        self.shut_down()
        self._broadcast(Abort(report))
        self._transport.flush()

    def shut_down(self) -> None:
        """End all dataflows at once."""
        for number in self.installed_dataflows():
            self.drop_dataflow(number)

    # Looking in

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
        return self._transport.traffic

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

    __slots__ = ("_number", "_owner", "_sender", "deliver")

    def __init__(self, owner: Worker, number: int, handle: InputHandle, sender: str) -> None:
        self._owner = owner
        self._number = number
        self._sender = sender
        self.deliver = handle.push

    @property
    def worker(self) -> WorkerId:
        """This worker."""
        return self._owner.id

    def members(self) -> Members:
        """All workers, as of now."""
        return self._owner.members

    def send(self, peer: WorkerId, time: Time, container: Container) -> None:
        """Hand a container to the receiver on another worker."""
        self._owner.send_data(self._number, peer, time, container, self._sender)
