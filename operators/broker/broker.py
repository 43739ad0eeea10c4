"""The inputs and outputs of a running job, shared by the worker that feeds it and the threads that serve clients.

A commit waits while the job is behind (back-pressure); a reader that wants all that was committed waits until it has
come out. Every such wait sends heartbeats, so that the client knows that the job runs, and ends when the job does.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from framework.progress.order import EPOCH_MAX
from framework.suggest import hint
from operators.broker.intake import Intake, Release
from operators.broker.outbox import KeptRows, Outbox, OutputPart
from operators.broker.spill import Blob, SpillBuffer
from operators.errors import RequestRefused

EPOCHS_AHEAD_MAX = 2
"""How many epochs may be under way in the job when a commit is answered."""

INPUT_AHEAD_MAX = 1000
"""How many epochs an input may be ahead of another that is fed more slowly: they wait in the job's memory."""

HEARTBEAT_S = 1.0
WITHIN_S_MAX = 1.0
"""How long a client may wait for more to read: that wait has no heartbeats."""

SETTLE_S = 60.0
"""How long an output may stand still while a reader waits for what was committed to come out."""

R = TypeVar("R", Intake, Outbox)
Heartbeat = Callable[[], None]


@dataclass(slots=True)
class Broker:
    """Holds the inputs and outputs of one job for the threads that feed, read and run it. Thread-safe."""

    wake: Callable[[], None]
    """Wakes the worker, to look at `pending`."""
    inputs: Mapping[str, Intake]
    outputs: Mapping[str, Outbox]
    spill: SpillBuffer = field(default_factory=SpillBuffer)
    _released: deque[Release] = field(default_factory=deque)
    _complete: int = 0
    """Epochs before this one have come through the whole job."""
    _failed: str | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)

    # For clients that feed

    def open(self, input: str, attempt: str, query: str, batch: int) -> bool:
        """Begin to stage an attempt; False if its batch was released before."""
        with self._changed:
            return self._named(input, self.inputs, "input").open(attempt, query, batch)

    def stage(self, input: str, attempt: str, data: bytes, rows: int) -> None:
        """Keep a part of an attempt."""
        blob = self.spill.keep(data)
        try:
            with self._changed:
                self.inputs[input].stage(attempt, blob, rows)
        except RequestRefused:
            self.spill.drop(blob)
            raise

    def complete(self, input: str, attempt: str, rows: int) -> None:
        """All of an attempt has come."""
        with self._changed:
            self.inputs[input].complete(attempt, rows)

    def abort(self, input: str, attempts: Iterable[str]) -> None:
        """Drop attempts."""
        with self._changed:
            dropped = self._named(input, self.inputs, "input").drop(attempts)
        self._drop(dropped)

    def commit(
        self, input: str, query: str, batch: int, attempts: Sequence[str], *, last: bool, heartbeat: Heartbeat
    ) -> tuple[int, bool]:
        """Release a batch, and wait until the job keeps up; its epoch, and whether it is new."""
        intake = self._named(input, self.inputs, "input")
        with self._changed:
            committed = intake.commit(query, batch, attempts, last=last)
            if committed.release is not None:
                self._released.append(committed.release)
        self._drop(committed.dropped)
        self.wake()
        self._wait(lambda: self._keeps_up(committed.epoch), heartbeat)
        return committed.epoch, committed.release is not None

    def _keeps_up(self, epoch: int) -> bool:
        """Whether more may come after `epoch`: little is under way, or all of it waits for an input that is behind."""
        slowest = min((intake.epoch for intake in self.inputs.values() if not intake.closed), default=self._complete)
        waits_for_input = self._complete >= slowest and epoch < slowest + INPUT_AHEAD_MAX
        return epoch < self._complete + EPOCHS_AHEAD_MAX or waits_for_input

    def skip(self, input: str, batch: int) -> None:
        """A batch without any attempt was committed."""
        with self._changed:
            self._named(input, self.inputs, "input").skip(batch)

    def finish(self, inputs: Sequence[str]) -> None:
        """Nothing more comes at these inputs, or at any if none is named."""
        with self._changed:
            for name in inputs or self.inputs:
                release = self._named(name, self.inputs, "input").close()
                if release is not None:
                    self._released.append(release)
        self.wake()

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
            ended = all(intake.closed for intake in self.inputs.values())
            goal = EPOCH_MAX if ended else max(intake.epoch for intake in self.inputs.values())
        mark, moved_s = outbox.closed, time.monotonic()

        def settled() -> bool:
            nonlocal mark, moved_s
            if outbox.closed != mark:
                mark, moved_s = outbox.closed, time.monotonic()
            if outbox.closed < goal and time.monotonic() - moved_s > SETTLE_S:
                where = ", ".join(f"{name!r} at {intake.epoch}" for name, intake in self.inputs.items())
                raise RequestRefused(
                    f"output {output!r} has stood at epoch {outbox.closed} for {SETTLE_S:g} s; inputs are {where}; "
                    f"one that stays behind holds it back until it goes on or ends"
                )
            return outbox.closed >= goal

        self._wait(settled, heartbeat)

    def parts(self, output: str, start: int, end: int) -> list[OutputPart]:
        """What lies between two offsets."""
        with self._changed:
            return self._named(output, self.outputs, "output").parts(start, end)

    def read(self, output: str, epoch: int, first: int, end: int) -> list[Blob]:
        """Some blobs of an epoch."""
        with self._changed:
            return self._named(output, self.outputs, "output").read(epoch, first, end)

    def forget(self, output: str, end: int) -> None:
        """Drop what lies before an offset."""
        with self._changed:
            dropped = self._named(output, self.outputs, "output").forget(end)
            self._changed.notify_all()
        self._drop(dropped)

    # For the worker

    @property
    def pending(self) -> bool:
        """Whether there is something to feed."""
        return bool(self._released)

    def skip_to(self, epoch: int) -> bool:
        """Release nothing before `epoch` from now on; False if something has been released and not taken."""
        with self._changed:
            if not self._released:
                for intake in self.inputs.values():
                    intake.epoch = max(intake.epoch, epoch)
            return not self._released

    def take(self) -> Release | None:
        """What to feed next."""
        with self._changed:
            return self._released.popleft() if self._released else None

    def deliver(self, output: str, epoch: int, data: bytes, rows: int) -> None:
        """Keep rows that have come out."""
        blob = self.spill.keep(data)
        with self._changed:
            self.outputs[output].add(epoch, KeptRows(blob, rows))

    def close_before(self, output: str, epoch: int | None) -> None:
        """An output's epochs are complete up to here."""
        with self._changed:
            self.outputs[output].close_before(epoch)
            self._changed.notify_all()

    def complete_before(self, epoch: int) -> None:
        """The whole job is complete up to here."""
        if epoch != self._complete:
            with self._changed:
                self._complete = epoch
                self._changed.notify_all()

    @property
    def unread(self) -> list[str]:
        """The outputs that still keep rows."""
        return [name for name, outbox in self.outputs.items() if not outbox.empty]

    def wait(self, timeout_s: float) -> None:
        """Sleep until something has changed, but no longer than this."""
        with self._changed:
            self._changed.wait(timeout_s)

    def fail(self, reason: str) -> None:
        """The job ends: every wait raises this reason."""
        with self._changed:
            self._failed = reason
            self._changed.notify_all()

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

    def _drop(self, blobs: Iterable[Blob]) -> None:
        for blob in blobs:
            self.spill.drop(blob)
