"""The inputs and outputs of a running job, shared by the worker that feeds it and the threads that serve clients.

`FlowControl`, the intakes and outboxes decide; here are the lock, the logs, the clock, and the waits: of a commit while
the job is behind or held, of a staging for room, of a reader for what was committed. Each of them sends heartbeats or
is short, so that the client knows that the job runs, and ends when the job does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa

from framework.suggest import hint
from operators.broker.broker_logs import BrokerLogs
from operators.broker.budget import BrokerLimits
from operators.broker.byte_log import LogFull
from operators.broker.flow_control import FlowControl
from operators.broker.intake import Intake, Release
from operators.broker.outbox import DeferredRows, KeptRows, Outbox, OutputPart
from operators.broker.segments import Extent
from operators.broker.staged_part import checked_part
from operators.errors import RequestRefused

HEARTBEAT_S = 1.0
WITHIN_S_MAX = 1.0
"""How long a client may wait for more to read: that wait has no heartbeats."""

ROOM_S = 10.0
"""How long a staging waits for room: a client that sends is not told anything meanwhile."""

SETTLE_S = 60.0
"""How long an output may stand still while a reader waits for what was committed to come out."""

R = TypeVar("R", Intake, Outbox)
Heartbeat = Callable[[], None]


class Broker:
    """Holds the inputs and outputs of one job for the threads that feed, read and run it. Thread-safe."""

    def __init__(
        self,
        wake: Callable[[], None],
        inputs: Mapping[str, Intake],
        outputs: Mapping[str, Outbox],
        schemas: Mapping[str, pa.Schema | None] | None = None,
        limits: BrokerLimits | None = None,
    ) -> None:
        """`wake` wakes the worker, to ask whether something is `ready`; an input with a schema takes nothing else."""
        self.wake = wake
        self.inputs = inputs
        self.outputs = outputs
        self._schemas = schemas if schemas is not None else {}
        self._limits = limits or BrokerLimits()
        self._logs = BrokerLogs(self._limits)
        self.staged = self._logs.staged
        self._flow = FlowControl(inputs, outputs)
        self._full: str | None = None
        """Why outputs wait to be written, if they do."""
        self._failed: str | None = None
        self._changed = threading.Condition()

    # For clients that feed

    def open(self, input: str, attempt: str, query: str, batch: int) -> bool:
        """Begin to stage an attempt; False if its batch was committed before."""
        with self._changed:
            return self._named(input, self.inputs, "input").open(attempt, query, batch, time.monotonic())

    def stage(self, input: str, attempt: str, data: bytes, rows: int) -> None:
        """Keep a part of an attempt, which may have to wait for room."""
        part = checked_part(data, rows, self._schemas.get(input), f"input {input!r}")
        extent = self._append_staged(part)
        try:
            with self._changed:
                self.inputs[input].stage(attempt, extent, rows)
        except RequestRefused:
            self.staged.drop(extent)
            raise

    def complete(self, input: str, attempt: str, rows: int) -> None:
        """All of an attempt has come."""
        with self._changed:
            self.inputs[input].complete(attempt, rows, time.monotonic())

    def abort(self, input: str, attempts: Iterable[str]) -> None:
        """Drop attempts."""
        with self._changed:
            dropped = self._named(input, self.inputs, "input").drop(attempts, time.monotonic())
        self._drop_staged(dropped)

    def expire(self) -> bool:
        """Drop the attempts of batches that were not committed for too long; whether there were any."""
        before_s = time.monotonic() - self._limits.attempt_s
        with self._changed:
            dropped = [extent for intake in self.inputs.values() for extent in intake.expire(before_s)]
        self._drop_staged(dropped)
        return bool(dropped)

    def commit(
        self,
        input: str,
        query: str,
        batch: int,
        attempts: Sequence[str],
        *,
        checkpoint: str | None = None,
        last: bool = False,
        heartbeat: Heartbeat,
    ) -> bool:
        """Decide a batch, and wait until the job keeps up; whether it is new."""
        intake = self._named(input, self.inputs, "input")
        with self._changed:
            committed = intake.commit(query, batch, attempts, checkpoint=checkpoint, last=last)
        self._drop_staged(committed.dropped)
        self.wake()
        self._wait(lambda: self._held() is None and self._flow.answers(intake, committed.number), heartbeat)
        return committed.new

    def skip(self, input: str, checkpoint: str | None, batch: int) -> None:
        """A batch without any attempt was committed."""
        with self._changed:
            self._named(input, self.inputs, "input").skip(checkpoint, batch)

    def finish(self, inputs: Sequence[str]) -> None:
        """Nothing more comes at these inputs, or at any if none is named."""
        with self._changed:
            for name in inputs or self.inputs:
                self._named(name, self.inputs, "input").close()
        self.wake()

    def _append_staged(self, data: bytes) -> Extent:
        deadline_s = time.monotonic() + ROOM_S
        while True:
            try:
                return self.staged.append(data)
            except LogFull as error:
                if self.expire():
                    continue
                if time.monotonic() > deadline_s:
                    raise RequestRefused(str(error)) from error
            with self._changed:
                if self._failed is not None:
                    raise RequestRefused(self._failed)
                self._changed.wait(min(HEARTBEAT_S, max(0.0, deadline_s - time.monotonic())))

    # For clients that read

    def latest(
        self, output: str, start: int | None, *, rows_max: int | None = None, bytes_max: int | None = None
    ) -> tuple[int, int]:
        """The offset of the first epoch that is kept, and the offset up to which one may read from `start` on."""
        with self._changed:
            outbox = self._named(output, self.outputs, "output")
            begin = outbox.forgotten if start is None else start
            return outbox.forgotten, outbox.after(begin, rows_max=rows_max, bytes_max=bytes_max)

    def wait_for_more(self, output: str, start: int, within_s: float) -> None:
        """Wait until there is something to read from `start` on, or the job ends, but no longer than this."""
        outbox = self._named(output, self.outputs, "output")
        with self._changed:
            self._changed.wait_for(
                lambda: outbox.available > start or self._failed is not None, min(within_s, WITHIN_S_MAX)
            )

    def settle(self, output: str, heartbeat: Heartbeat) -> None:
        """Wait until all that was committed has come out; if all inputs have ended, until nothing more can."""
        outbox = self._named(output, self.outputs, "output")
        with self._changed:
            goal = self._flow.settle_goal()
        epoch: int | None = None
        mark, moved_s = (outbox.closed, self.unread_bytes), time.monotonic()

        def settled() -> bool:
            nonlocal epoch, mark, moved_s
            epoch = self._flow.settle_epoch(goal) if epoch is None else epoch
            if epoch is not None and outbox.closed >= epoch:
                return True
            if mark != (now := (outbox.closed, self.unread_bytes)):
                mark, moved_s = now, time.monotonic()
            if time.monotonic() - moved_s > SETTLE_S:
                raise RequestRefused(self._why_it_stands(output))
            return False

        self._wait(settled, heartbeat)

    def parts(self, output: str, start: int, end: int) -> list[OutputPart]:
        """What lies between two offsets."""
        with self._changed:
            return self._named(output, self.outputs, "output").parts(start, end)

    def read(self, output: str, epoch: int, first: int, end: int) -> list[Extent]:
        """Where some pieces of an epoch lie."""
        with self._changed:
            return self._named(output, self.outputs, "output").read(epoch, first, end)

    def fetch(self, output: str, extent: Extent) -> bytes:
        """A piece of an epoch."""
        return self._logs.unread(output).read(extent)

    def forget(self, output: str, end: int) -> None:
        """Drop what lies before an offset."""
        with self._changed:
            dropped = self._named(output, self.outputs, "output").forget(end)
            for extent in dropped:
                self._logs.unread(output).drop(extent)
            self._changed.notify_all()
        self.wake()

    def _why_it_stands(self, output: str) -> str:
        where = ", ".join(f"{name!r} at {intake.epoch}" for name, intake in self.inputs.items())
        stands = f"output {output!r} has stood at epoch {self.outputs[output].closed} for {SETTLE_S:g} s; inputs are "
        if (held := self._held()) is not None:
            return f"{stands}{where}; the job takes nothing in, since {held}; have a stream read its outputs"
        return f"{stands}{where}; one that stays behind holds it back until it goes on or ends"

    # For the worker

    def ready(self) -> tuple[bool, str | None]:
        """Whether there is something to feed; and if not, whether it is held back, and why."""
        with self._changed:
            waits = self._flow.releasable() is not None
            held = self._held() if waits else self._full
            return waits and held is None, held

    @property
    def held(self) -> str | None:
        """Why nothing would be taken in now, if nothing would."""
        with self._changed:
            return self._held()

    def pass_to(self, epoch: int) -> None:
        """Release nothing before `epoch` from now on."""
        with self._changed:
            self._flow.pass_to(epoch)

    def take(self) -> Release | None:
        """What to feed next."""
        with self._changed:
            release = None if self._held() is not None else self._flow.release()
            self._changed.notify_all()
            return release

    def drop_fed(self, extent: Extent) -> None:
        """The job has been fed with a part."""
        self._drop_staged([extent])

    def deliver(self, output: str, epoch: int, data: bytes, rows: int) -> None:
        """Keep rows that have come out; in memory, if they cannot be written."""
        outbox = self.outputs[output]
        extent = None if outbox.deferred else self._write(output, data)
        with self._changed:
            if extent is None:
                outbox.defer(DeferredRows(epoch, data, rows))
            else:
                outbox.add(epoch, KeptRows(extent, rows))

    def close_before(self, output: str, epoch: int | None) -> None:
        """Nothing more comes out of an output before this epoch, or at all."""
        with self._changed:
            self.outputs[output].close_before(epoch)
            self._changed.notify_all()

    def retry(self) -> None:
        """Write what could not be written when it came out."""
        if self._full is None:
            return
        for output, outbox in self.outputs.items():
            while outbox.deferred and (extent := self._write(output, outbox.deferred[0].data)) is not None:
                with self._changed:
                    outbox.add_deferred(extent)
                    self._changed.notify_all()
        if not any(outbox.deferred for outbox in self.outputs.values()):
            self._full = None

    def complete_before(self, epoch: int) -> None:
        """The whole job is complete up to here."""
        if epoch != self._flow.complete:
            with self._changed:
                self._flow.complete_before(epoch)
                self._changed.notify_all()

    @property
    def unread(self) -> list[str]:
        """The outputs that still keep rows."""
        return [name for name, outbox in self.outputs.items() if not outbox.empty]

    @property
    def unread_bytes(self) -> int:
        """How many bytes the logs of outputs have."""
        return self._logs.unread_bytes

    def wait(self, timeout_s: float) -> None:
        """Sleep until something has changed, but no longer than this."""
        with self._changed:
            self._changed.wait(timeout_s)

    def fail(self, reason: str) -> None:
        """The job ends: every wait raises this reason."""
        with self._changed:
            self._failed = reason
            self._changed.notify_all()

    def _write(self, output: str, data: bytes) -> Extent | None:
        """Where rows lie; None if they cannot be written now."""
        try:
            return self._logs.unread(output).append(data)
        except LogFull as error:
            self._full = str(error)
            return None

    # Waiting

    def _held(self) -> str | None:
        """What `held` says, under the lock."""
        if self._full is not None:
            return self._full
        return self._logs.holds()

    def _wait(self, until: Callable[[], bool], heartbeat: Heartbeat) -> None:
        while True:
            with self._changed:
                if self._failed is not None:
                    raise RequestRefused(self._failed)
                if until():
                    return
                self._changed.wait(HEARTBEAT_S)
                if until():
                    return
            heartbeat()

    def _named(self, name: str, known: Mapping[str, R], kind: str) -> R:
        if name not in known:
            listed = ", ".join(map(repr, known)) or "none"
            raise RequestRefused(f"this job has no {kind} {name!r}; it has {listed}{hint(name, known)}")
        return known[name]

    def _drop_staged(self, extents: Iterable[Extent]) -> None:
        """Free what was staged, for those that wait for room."""
        dropped = False
        for extent in extents:
            self.staged.drop(extent)
            dropped = True
        if dropped:
            with self._changed:
                self._changed.notify_all()
