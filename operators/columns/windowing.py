"""Windows over aggregates on columns, as the logic of S: when they open, close and are dropped, and what they emit.

The windows of `operators.stateful.windows.aligned` on rows, in the same epochs. A worker has a table for each open
window, so that closing one emits its table, and dropping it drops the table. A timer is a window's start, set once per
bin that has a key in it, and moves with the bin; a window with dirty entries has a timer of the epoch, which does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from framework.errors import GraphError
from operators.columns.aggregating import CompiledAggregates, Records
from operators.columns.window_slices import WindowSlice, WindowSlices
from operators.errors import ValueUnfit
from operators.stateful.windows.aligned import pane_of
from operators.stateful.windows.clock import Clock
from operators.stateful.windows.late_count import LateCount
from routing.bins import Bins
from routing.columns.keys import HASHES, KeyColumns, read_only
from routing.columns.memory import Array
from routing.columns.take import take
from routing.columns.window_state import WindowState
from routing.state.timers import PendingTimers

START, END, PANE = "start", "end", "pane"


@dataclass(frozen=True, slots=True)
class EventTime:
    """The column of event times, in its own unit."""

    name: str
    type: pa.DataType

    @staticmethod
    def of(field: pa.Field, where: str) -> EventTime:
        """Raise unless the column can be one."""
        kind, types = field.type, pa.types
        whole = types.is_integer(kind) and not types.is_uint64(kind)
        if not (whole or types.is_date(kind) or types.is_timestamp(kind)):
            raise GraphError(
                f"{where} has the event time {field.name!r}, which is {kind}; let it be an integer of 64 bits or less, "
                f"a date or a timestamp, for instance with `pc.cast` in a `map`"
            )
        return EventTime(field.name, kind)

    def numbers(self, batch: pa.RecordBatch, schema: pa.Schema) -> Array:
        """The event times of a batch."""
        column = batch.column(self.name)
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise ValueUnfit(
                f"the event time {self.name!r} is null in {batch.select(schema.names).slice(row, 1).to_pylist()[0]!r}; "
                f"fill it (`pc.fill_null` in a `map`), or leave such records out (`filter`)"
            )
        if not pa.types.is_integer(self.type):
            column = column.view(self._number)
        return read_only(column.cast(pa.int64()).to_numpy())

    def repeated(self, time: int, rows: int) -> pa.Array:
        """A column of one time."""
        try:
            return pa.repeat(pa.scalar(time, pa.int64()).cast(self._number).cast(self.type), rows)
        except pa.ArrowInvalid as error:
            raise ValueUnfit(
                f"a window begins or ends at {time}, and the event time {self.name!r} is {self.type}: {error}; cast it "
                f"to a wider type in a `map`"
            ) from None

    @property
    def _number(self) -> pa.DataType:
        return pa.int32() if pa.types.is_date32(self.type) else pa.int64()


@dataclass(frozen=True, slots=True)
class Timing:
    """Which windows there are, and when they close."""

    slices: WindowSlices
    clock: Clock
    lateness: int
    early: bool

    def closed_at(self, start: int) -> int:
        """The epoch at whose end a window closes."""
        return self.clock.reached(start + self.slices.length)

    def dropped_at(self, start: int) -> int:
        """The epoch at whose end a window is dropped: records of later epochs are late for it."""
        return self.clock.reached(start + self.slices.length + self.lateness)


class Windowing:
    """Aggregates in windows. Emits results and late records, in batches of two schemas."""

    def __init__(
        self,
        compiled: CompiledAggregates,
        key: KeyColumns,
        event_time: EventTime,
        timing: Timing,
        schemas: tuple[pa.Schema, pa.Schema, pa.Schema],
        bins: Bins,
        late_count: LateCount,
    ) -> None:
        """The schemas are those of records, of results, and of late records."""
        self.timers = PendingTimers(once=True)
        self.bin_state = WindowState(bins, compiled.state_words, key, compiled.state, self.timers)
        self._compiled = compiled
        self._key = key
        self._event_time = event_time
        self._timing = timing
        self._schema, self._results, self._late = schemas
        self._late_count = late_count
        # Compile now, before records wait for it.
        timing.slices.divide(read_only(np.array([0, timing.slices.length])))

    def apply(self, port: int, time: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Apply records to their windows; return those that are too late, once per window missed."""
        order, slices = self._timing.slices.divide(self._event_time.numbers(rows, self._schema))
        needed = [*self._compiled.columns, *([HASHES] if HASHES in rows.schema.names else [])]
        batch = _take_rows(rows.select(needed), order)
        records = self._compiled.records(batch, self._key.keys(batch))
        late: list[pa.RecordBatch] = []
        late_rows = 0
        for piece in slices:
            some = records if order is None else records.slice(piece.first, piece.end)
            missed = len(late)
            for start in piece.starts:
                if time > self._timing.dropped_at(start):
                    late.append(self._late_records(rows, order, piece, start))
                else:
                    self._add(time, start, some)
            late_rows += (piece.end - piece.first) * (len(late) > missed)
        self._late_count.add(records=len(rows), late=late_rows)
        return pa.concat_batches(late) if late else pa.RecordBatch.from_pylist([], schema=self._late)

    def on_due(self, time: int) -> pa.RecordBatch:
        """Complete an epoch: emit windows that close or have changed, and drop those that are over."""
        starts = {start for _, items in self.timers.pop_due(time) for start in items}
        starts.update(self.timers.pop_due_local(time))
        return pa.concat_batches([self._emit(time, start) for start in sorted(starts)])

    def _add(self, time: int, start: int, records: Records) -> None:
        window, closed_at = self.bin_state.window(start), self._timing.closed_at(start)
        # In the epoch in which it closes, the whole table is emitted, dirty or not.
        is_tracked = time > closed_at or (self._timing.early and time < closed_at)
        self._compiled.apply(window.table, records, window.dirty if is_tracked else None)
        if is_tracked:
            self.timers.set_local(time, start)
        for bin_id in window.new_bins():
            if closed_at >= time:
                self.timers.set(bin_id, closed_at, start)
            self.timers.set(bin_id, self._timing.dropped_at(start), start)

    def _emit(self, time: int, start: int) -> pa.RecordBatch:
        """The results of a window at the end of an epoch."""
        window, closed_at = self.bin_state.window(start), self._timing.closed_at(start)
        dirty = window.dirty.take()
        entries = window.table.entries() if time == closed_at else dirty
        columns = self._compiled.results(window.table, entries)
        keys, pane = len(self._key.columns), pane_of(time, closed_at).value
        if time == self._timing.dropped_at(start):
            self.bin_state.drop(start)
        borders = self._borders(start, len(entries))
        arrays = [*columns[:keys], *borders, *columns[keys:], pa.repeat(pa.scalar(pane), len(entries))]
        return pa.RecordBatch.from_arrays(arrays, schema=self._results)

    def _late_records(
        self, rows: pa.RecordBatch, order: Array | None, piece: WindowSlice, start: int
    ) -> pa.RecordBatch:
        """The records of a slice, with the window that they came too late for."""
        late = _take_rows(rows.select(self._schema.names), None if order is None else order[piece.first : piece.end])
        return pa.RecordBatch.from_arrays([*late.columns, *self._borders(start, len(late))], schema=self._late)

    def _borders(self, start: int, rows: int) -> list[pa.Array]:
        end = start + self._timing.slices.length
        return [self._event_time.repeated(start, rows), self._event_time.repeated(end, rows)]


def _take_rows(batch: pa.RecordBatch, rows: Array | None) -> pa.RecordBatch:
    if rows is None:
        return batch
    return pa.RecordBatch.from_arrays([take(column, rows) for column in batch.columns], schema=batch.schema)
