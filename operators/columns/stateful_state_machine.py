"""State per key, on bins that move between workers while the stream goes on, by a fold that is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pyarrow as pa

from framework.errors import GraphError
from operators.schema import Schema, arrow_schema
from operators.stateful.placement import placement_in
from routing.bins import Bins
from routing.commands import Control
from routing.options import BinOptions
from routing.router_operator import Combine
from routing.state.memory import MemoryStore
from routing.state.rocks import RocksMaker
from routing.state.timers import PendingTimers

if TYPE_CHECKING:
    from operators.columns.stream import Columns
    from operators.stateful.fold import Fold
    from operators.stream import Stream
    from routing.columns.keys import KeyColumns, Keys
    from routing.columns.table.table import Table
    from routing.columns.table.tiered import TieredTable


def stateful_state_machine(
    columns: Columns,
    fold: Fold[Any, Any, Any, Any],
    *,
    key: str | Sequence[str],
    state: Schema,
    initial: Any,
    output: Schema,
    value: str | Sequence[str] | None = None,
    emit: Literal["record", "epoch"] = "record",
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "stateful_state_machine",
) -> Columns:
    """Apply records to the state of their key, in the order of their times, at the worker that owns the key's bin then.

    >>> def count(word, n, total):
    ...     total += n
    ...     return total, [(word, total)]
    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def build(scope):
    ...     words = to_stream(scope, ["tea", "milk", "tea"]).to_columns({"word": str})
    ...     counts = words.stateful_state_machine(
    ...         count, key="word", state={"total": int}, initial=0, output={"word": str, "total": int}
    ...     )
    ...     return counts.extract()
    >>> example(build).rows()
    [('tea', 1), ('milk', 1), ('tea', 2)]

    `fold(key, value, state)` is that of `stateful_state_machine` on rows, where the same function gives the same
    results; here it is compiled when the dataflow is built. So it works on numbers and truth values, returns its
    outputs as a list that is written out, `[]`, `[one]` or `[one] if condition else []`, and may call functions that do
    the same. Integers have 64 bits. A key that is a string can be put into outputs, and nothing else.

    `key` and `value` name columns. With several, the fold receives a tuple; without a `value`, 1. `state` is the schema
    of the state, a number or a tuple of numbers, `initial` the state of a new key, and `output` the schema of outputs.
    With `emit="epoch"`, the last output of each key comes out when an epoch is complete, and no other.

    With more than one worker, records of a key may overtake one another within their time, as on rows.

    `control` and `bins` are those of rows.
    """
    from operators.columns.fold import CompiledFold
    from operators.columns.loop import number_fields
    from routing.columns.keys import KeyColumns, check_columns

    where = f"operator {name!r}"
    keys = KeyColumns.of(columns.schema, key, where)
    chosen = [] if value is None else [value] if isinstance(value, str) else list(value)
    check_columns(columns.schema, chosen, where)
    fields = number_fields(arrow_schema(state), "state")
    first = initial if isinstance(initial, tuple) else (initial,)
    if len(first) != len(fields):
        raise GraphError(f"{where} has a state of {len(fields)} columns, and initial={initial!r} has {len(first)}")
    for field, one in zip(fields, first, strict=True):
        if field.type not in (pa.int64(), pa.float64(), pa.bool_()):
            raise GraphError(f"{where} has a state {field.name!r} of {field.type}; let it be int, float or bool")
        if not isinstance(one, field.takes):
            raise GraphError(f"{where} has a state {field.name!r} of {field.type}, and its initial value is {one!r}")
    outputs = arrow_schema(output)
    compiled = CompiledFold(
        fold,
        key=keys,
        values=number_fields(pa.schema([columns.schema.field(column) for column in chosen]), "value"),
        state=fields,
        initial=first,
        output=outputs,
        per_epoch=is_per_epoch(emit, where),
        log=lambda text: columns.scope.worker.log(f"{where}: {text}"),
    )
    return place_fold(columns, compiled, keys, arrow_schema(state), control=control, bins=bins, name=name)


def is_per_epoch(emit: str, where: str) -> bool:
    """Whether outputs come when an epoch is complete, rather than with each record."""
    if emit not in ("record", "epoch"):
        raise GraphError(f"{where} received emit={emit!r}; it is 'record' or 'epoch'")
    return emit == "epoch"


class Folding(Protocol):
    """A compiled fold, or compiled aggregates, over one table."""

    @property
    def per_epoch(self) -> bool:
        """Whether outputs come when an epoch is complete."""

    @property
    def output(self) -> pa.Schema:
        """The schema of outputs."""

    @property
    def state_words(self) -> int:
        """The number of words of an entry's state."""

    @property
    def epoch(self) -> int:
        """The serial of the current epoch: the upper half of the last word of states that have changed in it."""

    def apply(self, table: Table, batch: pa.RecordBatch, keys: Keys) -> pa.RecordBatch:
        """Apply a batch to `table`; return the outputs, if they come per record."""

    def finish_epoch(self, table: Table) -> pa.RecordBatch:
        """The outputs of a complete epoch; the next begins."""


def place_fold(
    columns: Columns,
    fold: Folding,
    key: KeyColumns,
    state: pa.Schema,
    *,
    control: Stream[Control] | None,
    bins: int | BinOptions,
    name: str,
    combine: Combine | None = None,
) -> Columns:
    """Place a compiled fold on bins, for the records of `columns` or what `combine` makes of them."""
    from operators.columns.stream import Columns
    from routing.columns.pact import ColumnKey

    options = BinOptions.of(bins)
    if options.store is not MemoryStore and not isinstance(options.store, RocksMaker):
        raise GraphError(
            f"operator {name!r} works on columns, and cannot use the store that {options.store!r} makes; leave `store` "
            f"out of its BinOptions to keep states in memory, or name what `RocksStore.maker()` returns"
        )
    placement = placement_in(columns.scope, control=control, options=options, name=name)
    logic = CompiledStateMachine(fold, key, state, options)
    keying = ColumnKey(key, combine, dictionaries=True)
    return Columns(placement.place([(columns.outlet, keying)], logic, name), fold.output)


class CompiledStateMachine:
    """A compiled fold as the logic of S."""

    def __init__(self, fold: Folding, key: KeyColumns, state: pa.Schema, options: BinOptions) -> None:
        from routing.columns.state import TableState
        from routing.columns.table.table import Table

        bins = Bins(options.bins)
        self.timers = PendingTimers()
        self._table = Table(bins, fold.state_words)
        self._tiered: TieredTable | None = None
        if isinstance(options.store, RocksMaker):
            self._tiered = tiered(self._table, bins, fold, key, options.store)
        self.bin_state = TableState(self._tiered or self._table, key, state, self.timers)
        TableState.warm_up(key, state)
        self._fold = fold
        self._key = key

    def apply(self, port: int, time: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Apply the fold."""
        if self._fold.per_epoch and not self.timers.any_at(time):
            self.timers.set_local(time, None)
        if self._tiered is None:
            return self._fold.apply(self._table, rows, self._key.keys(rows))
        outputs = [self._apply_tiered(self._tiered, part) for part in self._tiered.parts(rows)]
        return outputs[0] if len(outputs) == 1 else pa.concat_batches(outputs)

    def on_due(self, time: int) -> pa.RecordBatch:
        """Emit the outputs of an epoch that is complete. Its keys are all here: F ships no bin before these are out."""
        self.timers.pop_due_local(time)
        outputs = self._fold.finish_epoch(self._table)
        if self._tiered is not None:
            self._tiered.spill()
        return outputs

    def _apply_tiered(self, tiered: TieredTable, rows: pa.RecordBatch) -> pa.RecordBatch:
        keys = self._key.keys(rows)
        tiered.fetch(keys)
        outputs = self._fold.apply(self._table, rows, keys)
        tiered.spill()
        return outputs


def tiered(table: Table, bins: Bins, fold: Folding, key: KeyColumns, maker: RocksMaker) -> TieredTable:
    """A table of a fold's keys with a database behind it."""
    from routing.columns.table.tiered import TieredTable

    TieredTable.warm_up(key, fold.state_words)
    return TieredTable(table, bins, *maker.behind_table(), (lambda: fold.epoch) if fold.per_epoch else None)
