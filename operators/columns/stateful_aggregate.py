"""Running aggregates per key, on bins that move between workers while the stream goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from operators.columns.aggregates import Aggregate
from operators.columns.stateful_state_machine import is_per_epoch, place_fold
from routing.commands import Control
from routing.options import BinOptions

if TYPE_CHECKING:
    from operators.columns.aggregating import CompiledAggregates
    from operators.columns.partials import Partials
    from operators.columns.stream import Columns
    from operators.stream import Stream
    from routing.columns.keys import Keys
    from routing.columns.table.table import Table


def stateful_aggregate(
    columns: Columns,
    aggregates: Mapping[str, Aggregate],
    *,
    key: str | Sequence[str],
    emit: Literal["record", "epoch"] = "epoch",
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "stateful_aggregate",
) -> Columns:
    """Keep aggregates per key over all that has come so far; when an epoch is complete, those of its keys come out.

    >>> from framework.launch.execute import example
    >>> from operators.columns import aggregates as agg
    >>> from operators.input.to_stream import to_stream
    >>> def build(scope):
    ...     sales = to_stream(scope, [("tea", 3), ("milk", 1), ("tea", 5)]).to_columns({"what": str, "cents": int})
    ...     return sales.stateful_aggregate({"sold": agg.count(), "mean": agg.mean("cents")}, key="what").extract()
    >>> example(build).rows()
    [('tea', 2, 4.0), ('milk', 1, 1.0)]

    `aggregates` are those of `operators.columns.aggregates`, by the columns that they come out in, after those of the
    key. With `emit="record"`, they come out for each record. `control` and `bins` are those of
    `stateful_state_machine`.
    """
    from operators.columns.aggregating import CompiledAggregates
    from operators.columns.combining import Combined
    from operators.columns.partials import Partials
    from routing.columns.keys import KeyColumns

    where = f"operator {name!r}"
    keys = KeyColumns.of(columns.schema, key, where)
    combined = Combined.of(columns.schema, aggregates, where, per_record=not is_per_epoch(emit, where))
    compiled = CompiledAggregates(combined, keys, log=lambda text: columns.scope.worker.log(f"{where}: {text}"))
    partials = None if combined.per_record else Partials(combined, compiled, keys)
    return place_fold(
        columns,
        _Running(compiled, partials),
        keys,
        combined.state,
        control=control,
        bins=bins,
        name=name,
        combine=None if partials is None else partials.combine,
    )


class _Running:
    """Aggregates over all that has come so far, in one table: a `Folding`."""

    def __init__(self, compiled: CompiledAggregates, partials: Partials | None) -> None:
        """With `partials`, results come per epoch, and batches are of records or of partial states."""
        from routing.columns.table.dirty_entries import DirtyEntries

        self.per_epoch = partials is not None
        self.output = compiled.output
        self.state_words = compiled.state_words
        self._compiled = compiled
        self._partials = partials
        self._dirty = DirtyEntries()
        self._no_rows = pa.RecordBatch.from_pylist([], schema=compiled.output)

    @property
    def epoch(self) -> int:
        return self._dirty.serial

    def apply(self, table: Table, batch: pa.RecordBatch, keys: Keys) -> pa.RecordBatch:
        if self._partials is None:
            return self._compiled.apply_each(table, self._compiled.records(batch, keys))
        if self._partials.are_in(batch):
            self._partials.merge(table, batch, keys, self._dirty)
        else:
            self._compiled.apply(table, self._compiled.records(batch, keys), self._dirty)
        return self._no_rows

    def finish_epoch(self, table: Table) -> pa.RecordBatch:
        arrays = self._compiled.results(table, self._dirty.take())
        return pa.RecordBatch.from_arrays(arrays, schema=self.output)
