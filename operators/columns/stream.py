"""The stream of columns: Arrow batches of one schema, each at a time, spread over all workers.

Each method is an operator; those that do not care what a stream carries are those of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from framework.dataflow.scope import Outlet, Scope
from framework.errors import GraphError
from operators.capture.capture import capture
from operators.capture.extract import Extracted
from operators.columns.exchange import concat, exchange, exchange_by, partition
from operators.columns.per_batch import filter, flat_map, map
from operators.columns.sliding_window import sliding_window
from operators.columns.stateful_aggregate import stateful_aggregate
from operators.columns.stateful_state_machine import stateful_state_machine
from operators.columns.tumbling_window import tumbling_window
from operators.core.broadcast import broadcast
from operators.core.enter import enter
from operators.core.exchange import deal
from operators.core.inspect import inspect_batch
from operators.core.leave import leave
from operators.core.probe import Probe, probe
from operators.core.to_rows import rows_from_columns
from operators.stream import Stream

if TYPE_CHECKING:
    from operators.capture.event import EventSink


class Columns:
    """Arrow batches of `schema`, each at a time, spread over all workers. Progress counts their rows."""

    __slots__ = ("outlet", "schema")

    def __init__(self, outlet: Outlet, schema: pa.Schema) -> None:
        self.outlet = outlet
        self.schema = schema

    @property
    def scope(self) -> Scope:
        """The scope that the stream belongs to."""
        return self.outlet.scope

    # Batch by batch
    map = map
    flat_map = flat_map
    filter = filter

    # Streams out of streams
    concat = concat
    partition = partition

    # Between workers
    exchange = exchange
    exchange_by = exchange_by

    # On bins that can move between workers
    stateful_state_machine = stateful_state_machine
    stateful_aggregate = stateful_aggregate
    tumbling_window = tumbling_window
    sliding_window = sliding_window

    def to_rows(self, *, name: str = "to_rows") -> Stream[Any]:
        """Turn batches into records: the value of the one column, or a tuple of those of several."""
        return rows_from_columns(self, name=name)

    def inspect(self, function: Callable[[pa.RecordBatch], object], *, name: str = "inspect") -> Columns:
        """Call `function(batch)` for each batch, and pass it on."""
        return self.through(lambda stream: inspect_batch(stream, lambda _, batch: function(batch), name=name))

    def inspect_batch(
        self, function: Callable[[Any, pa.RecordBatch], object], *, name: str = "inspect_batch"
    ) -> Columns:
        """Call `function(time, batch)` for each batch, and pass it on."""
        return self.through(lambda stream: inspect_batch(stream, function, name=name))

    def deal(self, *, name: str = "deal") -> Columns:
        """Deal batches out to all workers, in equal slices."""
        return self.through(lambda stream: deal(stream, name=name))

    def broadcast(self, *, name: str = "broadcast") -> Columns:
        """Bring each batch to every worker."""
        return self.through(lambda stream: broadcast(stream, name=name))

    def enter(self, scope: Scope) -> Columns:
        """Bring the stream into a nested scope."""
        return self.through(lambda stream: enter(stream, scope))

    def leave(self) -> Columns:
        """Bring the stream out of its scope."""
        return self.through(leave)

    def probe(self, handle: Probe) -> Columns:
        """Let `handle` tell how far the stream has come."""
        return self.through(lambda stream: probe(stream, handle))

    def capture(self, sink: EventSink, *, name: str = "capture") -> None:
        """Write the stream and its progress down."""
        capture(Stream(self.outlet), sink, name=name)

    def extract(self, *, name: str = "extract") -> Extracted[Any]:
        """Collect the rows that come to this worker, as records, for tests and small results."""
        return self.to_rows().extract(name=name)

    def through(self, operator: Callable[[Stream[Any]], Stream[Any]]) -> Columns:
        """What comes out of an operator that passes containers on, whatever they are."""
        return Columns(operator(Stream(self.outlet)).outlet, self.schema)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Stream, name):
            raise AttributeError(f"a stream of columns has no {name!r}")
        raise GraphError(
            f"a stream of columns has no `{name}`, one of rows does; turn it into rows with `.to_rows()` before, and "
            f"back with `.to_columns(schema)`"
        )
