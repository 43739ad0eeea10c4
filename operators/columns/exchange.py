"""Operators that merge, split and exchange streams of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from framework.dataflow.pact import Pact, Pipeline
from framework.errors import GraphError
from operators.core.concat import merge
from operators.errors import RouteOutOfRange

if TYPE_CHECKING:
    from operators.columns.stream import Columns

Route = Callable[[pa.RecordBatch], Any]
"""From a batch to an array of integers, one for each row."""


def concat(columns: Columns, *others: Columns, name: str = "concat") -> Columns:
    """Put this stream and others of the same schema together."""
    from operators.columns.stream import Columns

    for other in others:
        if not isinstance(other, Columns):
            raise GraphError(
                f"operator {name!r} cannot put columns and rows together; turn the rows into columns with "
                f"`.to_columns(schema)`, or the columns into rows with `.to_rows()`"
            )
        if not other.schema.equals(columns.schema):
            raise GraphError(
                f"operator {name!r} puts streams of one schema together, and these differ:\n{columns.schema}\n"
                f"and\n{other.schema}"
            )
    return Columns(merge(columns.scope, [columns.outlet, *(other.outlet for other in others)], name), columns.schema)


def partition(columns: Columns, count: int, route: Route, *, name: str = "partition") -> list[Columns]:
    """Split into `count` streams; `route(batch)` is an array that tells which one each row goes to.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def build(scope):
    ...     numbers = to_stream(scope, range(5)).to_columns({"n": int})
    ...     even, odd = numbers.partition(2, lambda batch: batch["n"].to_numpy() % 2)
    ...     return even.extract(), odd.extract()
    >>> [part.rows() for part in example(build)]
    [[0, 2, 4], [1, 3]]
    """
    from operators.columns.stream import Columns
    from routing.columns.partition import divide_by

    if count < 1:
        raise GraphError(f"operator {name!r} splits a stream into at least 1, not into {count}")
    builder = columns.scope.operator(name)
    input = builder.input(columns.outlet, Pipeline())
    ports = [builder.output() for _ in range(count)]

    def logic() -> None:
        for capability, batch in input:
            parts = _route_numbers(route(batch), batch, name)
            wrong = np.flatnonzero((parts < 0) | (parts >= count))
            if len(wrong):
                row = batch.slice(int(wrong[0]), 1).to_pylist()[0]
                raise RouteOutOfRange(
                    f"operator {name!r} has outputs 0 to {count - 1}, and its route gave {parts[wrong[0]]} for {row!r}"
                )
            for (output, _), part in zip(ports, divide_by(batch, parts, count), strict=True):
                output.session(capability).give_container(part)

    builder.build(lambda _: logic, notify=False)
    return [Columns(outlet, columns.schema) for _, outlet in ports]


def exchange(columns: Columns, route: Route, *, name: str = "exchange") -> Columns:
    """Bring each row to the worker that its number in `route(batch)`, modulo the number of workers, names."""
    from routing.columns.pact import ColumnsExchange

    return _exchange_by_pact(columns, ColumnsExchange(lambda batch: _route_numbers(route(batch), batch, name)), name)


def exchange_by(columns: Columns, key: str | Sequence[str], *, name: str = "exchange_by") -> Columns:
    """Bring all rows with the same key, one column or several, to the same worker: where rows of that key go, too."""
    from routing.columns.keys import KeyColumns
    from routing.columns.pact import ColumnsExchange

    keys = KeyColumns.of(columns.schema, key, f"operator {name!r}")
    return _exchange_by_pact(columns, ColumnsExchange(keys.hashes, fixed=True), name)


def _exchange_by_pact(columns: Columns, pact: Pact, name: str) -> Columns:
    from operators.columns.stream import Columns

    builder = columns.scope.operator(name)
    input = builder.input(columns.outlet, pact)
    output, outlet = builder.output()

    def logic() -> None:
        for capability, batch in input:
            output.session(capability).give_container(batch)

    builder.build(lambda _: logic, notify=False)
    return Columns(outlet, columns.schema)


def _route_numbers(routes: Any, batch: pa.RecordBatch, name: str) -> np.ndarray[Any, Any]:
    if isinstance(routes, pa.Array | pa.ChunkedArray):
        routes = routes.to_numpy(zero_copy_only=False) if isinstance(routes, pa.Array) else routes.to_numpy()
    found = np.asarray(routes)
    if found.shape != (len(batch),) or found.dtype.kind not in "iu":
        raise RouteOutOfRange(
            f"operator {name!r} wants an integer for each of {len(batch)} rows, and its route gave {found.dtype} of "
            f"shape {found.shape}"
        )
    return found
