"""What goes out at one output: kept by epochs, read as often as wanted, and forgotten when the reader says so.

An epoch is *closed* when nothing more can be added to it; only then is it read, so that every read of it gives the
same. Offsets are epochs: a reader at offset 5 has read all before 5.

Rows for which the disk has no room are *deferred*: they wait in memory, in their order, and their epochs are not
closed. While any are, the job is held, so that they are those of no more epochs than were in the job.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from framework.progress.order import EPOCH_MAX
from operators.broker.segments import Extent
from operators.errors import RequestRefused

PART_BYTES = 8 * 1024 * 1024
"""About how much of an output one task reads."""


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Some rows of an epoch."""

    extent: Extent
    rows: int


@dataclass(frozen=True, slots=True)
class DeferredRows:
    """Some rows of an epoch that are not written yet."""

    epoch: int
    data: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class OutputPart:
    """What one task reads."""

    pieces: tuple[tuple[int, int, int], ...]
    """Epoch, the index of the first piece within it, and of the one behind the last."""


@dataclass(slots=True)
class Outbox:
    """The state of one output: which epochs are kept, closed and forgotten. Pure."""

    name: str
    closed: int = 0
    """Epochs before this one are closed."""
    forgotten: int = 0
    """Epochs before this one are gone."""
    deferred: deque[DeferredRows] = field(default_factory=deque)
    _passed: int = 0
    """Nothing more comes out before this epoch."""
    _epochs: dict[int, list[KeptRows]] = field(default_factory=dict)

    def add(self, epoch: int, kept: KeptRows) -> None:
        """Keep some rows."""
        assert epoch >= self.closed, (epoch, self.closed)
        self._epochs.setdefault(epoch, []).append(kept)

    def defer(self, rows: DeferredRows) -> None:
        """Let some rows wait to be written."""
        assert rows.epoch >= self.closed, (rows.epoch, self.closed)
        self.deferred.append(rows)

    def add_deferred(self, extent: Extent) -> None:
        """Keep the first of those that wait: they are written now."""
        rows = self.deferred.popleft()
        self.add(rows.epoch, KeptRows(extent, rows.rows))
        self.close_before(self._passed)

    def close_before(self, epoch: int | None) -> None:
        """Nothing more comes out before this epoch, or at all (None)."""
        self._passed = max(self._passed, EPOCH_MAX if epoch is None else epoch)
        self.closed = min([self._passed, *(rows.epoch for rows in self.deferred)])

    @property
    def empty(self) -> bool:
        """Whether everything was forgotten, and nothing waits."""
        return not self._epochs and not self.deferred

    @property
    def available(self) -> int:
        """The offset behind the last rows that can be read."""
        return max((epoch + 1 for epoch in self._epochs if epoch < self.closed), default=self.forgotten)

    def after(self, start: int, *, rows_max: int | None = None, bytes_max: int | None = None) -> int:
        """The greatest offset such that what lies between is within the limits; but at least one epoch with rows."""
        end, rows, size = start, 0, 0
        for epoch in sorted(epoch for epoch in self._epochs if start <= epoch < self.closed):
            rows += sum(kept.rows for kept in self._epochs[epoch])
            size += sum(kept.extent.size for kept in self._epochs[epoch])
            over = (rows_max is not None and rows > rows_max) or (bytes_max is not None and size > bytes_max)
            if over and end > start:
                break
            end = epoch + 1
        return end

    def parts(self, start: int, end: int) -> list[OutputPart]:
        """What lies between two offsets, cut into parts for tasks."""
        self._check(start)
        parts: list[OutputPart] = []
        pieces: list[tuple[int, int, int]] = []
        size = 0
        for epoch in sorted(epoch for epoch in self._epochs if start <= epoch < end):
            first = 0
            for number, kept in enumerate(self._epochs[epoch]):
                size += kept.extent.size
                if size >= PART_BYTES:
                    parts.append(OutputPart((*pieces, (epoch, first, number + 1))))
                    pieces, first, size = [], number + 1, 0
            if first < len(self._epochs[epoch]):
                pieces.append((epoch, first, len(self._epochs[epoch])))
        return [*parts, OutputPart(tuple(pieces))] if pieces else parts

    def read(self, epoch: int, first: int, end: int) -> list[Extent]:
        """Some pieces of a closed epoch."""
        self._check(epoch)
        if epoch >= self.closed:
            raise RequestRefused(f"epoch {epoch} of output {self.name!r} is not closed yet")
        return [kept.extent for kept in self._epochs.get(epoch, [])[first:end]]

    def forget(self, end: int) -> list[Extent]:
        """Drop the epochs before `end`; what they had kept."""
        if end > self.closed:
            raise RequestRefused(
                f"output {self.name!r} has not come to epoch {end} yet, and cannot forget what lies before"
            )
        self.forgotten = max(self.forgotten, end)
        gone = [epoch for epoch in self._epochs if epoch < end]
        return [kept.extent for epoch in gone for kept in self._epochs.pop(epoch)]

    def _check(self, epoch: int) -> None:
        if epoch < self.forgotten:
            raise RequestRefused(
                f"epoch {epoch} of output {self.name!r} was read, committed and forgotten; an output has one reading "
                f"stream, and a new one finds epochs from {self.forgotten} on"
            )
