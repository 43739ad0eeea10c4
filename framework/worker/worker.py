"""A worker, as its program sees it: builds dataflows, takes part in the job, joins it late, leaves it early, ends.

Running what was built is `Stepper`'s; who takes part, and the protocols by which that changes, are `Rescaling`'s.
"""

from __future__ import annotations

import time as monotonic
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from framework.dataflow.handle import InputHandle
from framework.dataflow.operator import Activator
from framework.dataflow.scope import Scope
from framework.errors import GraphError
from framework.events import DataflowBuilt
from framework.membership.members import Address, Members, WorkerId
from framework.progress.domain import Domain, Region
from framework.progress.subgraph import ProgressState, Subgraph
from framework.wire.messages import Abort, Built, Data, Goodbye, Progress
from framework.worker.channel import WorkerChannel
from framework.worker.dataflows import fingerprint_of
from framework.worker.stepper import Stepper
from framework.worker.transport import Traffic, Transport


class Worker(Stepper):
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
        super().__init__(worker, members, transport, clock, addresses)
        self.args = tuple(args)
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

    # Building

    @contextmanager
    def dataflow(self, name: str = "dataflow") -> Iterator[Scope]:
        """Build a dataflow within a `with` block; it runs from the block's end on, whenever the worker steps."""
        number = self.installed.begin()
        first_channel = self.installed.switchboard.reserved
        nesting = Region(Domain())
        scope = Scope(self, name, str(number), nesting, lambda: self._ready.add(number), None)
        try:
            yield scope
            root = scope.close()
            self._announce_built(number, fingerprint_of(scope.description()))
        except BaseException:
            scope.abandon()
            raise
        self.installed.add(number, root, first_channel)
        self._ready.add(number)
        if self.events.listening:
            self.events.emit(DataflowBuilt(number, name, tuple(scope.operators())))

    def _announce_built(self, number: int, fingerprint: bytes) -> None:
        self.rescaling.check_fingerprint(number, fingerprint)
        self.installed.compare(number, self.id, fingerprint)
        self._unannounced.append(Built(number, fingerprint))
        if not self.rescaling.joining:
            self._announce()

    def open_channel(self, handle: InputHandle, sender: str) -> WorkerChannel:
        """An edge that ends at `handle` and begins at the operator named `sender`."""
        return WorkerChannel(self, self.installed.open_data(handle), handle, sender)

    def activator(self, activate: Callable[[], None]) -> Activator:
        """The ways to have `activate` called."""

        def from_thread() -> None:
            self._agenda.from_thread(activate)
            self.transport.wake()

        return Activator(
            activate=activate,
            activate_from_thread=from_thread,
            activate_after=lambda delay_s: self.after(delay_s, activate),
            activate_when_clear=lambda: self._agenda.when_clear(activate),
        )

    def on_finish(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the program has returned and only what is under way remains to be done."""
        self._on_finish.append(callback)

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

    @property
    def leaves_when_asked(self) -> bool:
        """Whether asking this worker to leave has an effect: its program looks out for that, or it joined and will."""
        return (self.can_leave or self.rescaling.joined) and self.rescaling.may_leave

    def ask_to_leave(self) -> None:
        """Have the program leave when it looks at `asked_to_leave` next; may be called from any thread or handler."""
        self.asked_to_leave = True
        self.transport.wake()

    def leave(self) -> None:
        """Leave the job: close the inputs, have the bins taken away, let what is left drain, and part from the others.

        Bins are moved by whoever sends the job's commands, who hears of it through `rescaling.on_wish`. When it returns
        this worker is no longer part of the job, and its program should end.
        """
        running, rescaling = self.installed.roots, self.rescaling
        rescaling.check_may_leave()
        self.close_inputs()
        if rescaling.objection() is not None:
            rescaling.wish_to_leave()
        while running and rescaling.objection() is not None:
            self.step_or_park()
        if not running:
            return  # the job has ended meanwhile
        rescaling.begin_leave()
        while not rescaling.gone:
            if not running and not rescaling.leaving:
                rescaling.withdraw()
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
        if self.installed.roots:
            try:
                self.rescaling.check_may_leave()
            except GraphError as reason:
                self.rescaling.tell(f"{reason}; a second SIGTERM stops it")
                self.complete()
                return False
            self.leave()
        return self.rescaling.gone

    # Ending

    def close_inputs(self) -> None:
        """The program has returned: nobody can feed its inputs any more."""
        for callback in self._on_finish:
            callback()
        self._on_finish.clear()

    def complete(self) -> None:
        """Close the inputs and run until every dataflow is complete."""
        self.close_inputs()
        while self.installed.roots:
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

    # Looking in

    def dataflows(self) -> dict[int, Subgraph]:
        """The outermost scope of each running dataflow."""
        return dict(self.installed.roots)

    def progress_states(self) -> dict[int, ProgressState]:
        """What each dataflow's outermost scope has heard so far."""
        return self.installed.progress_states()

    def early(self) -> list[tuple[WorkerId, Data | Progress]]:
        """Messages for dataflows that are not built yet."""
        return self.installed.early()

    def traffic(self) -> Traffic:
        """What went to other processes so far."""
        return self.transport.traffic
