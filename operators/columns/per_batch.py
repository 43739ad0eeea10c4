"""Operators that look at one batch at a time.

A function is called once on an empty batch while the dataflow is built: its result has the stream's schema, and a
function that names a missing column fails before any data flow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from framework.dataflow.pact import Pipeline
from framework.errors import GraphError
from framework.launch.report import own_frames
from operators.errors import RecordUnfit
from operators.schema import Schema, arrow_schema

if TYPE_CHECKING:
    from operators.columns.stream import Columns

OfBatch = Callable[[pa.RecordBatch], pa.RecordBatch]


def map(columns: Columns, function: OfBatch, *, schema: Schema | None = None, name: str = "map") -> Columns:
    """Replace each batch by `function(batch)`, which has as many rows.

    >>> import pyarrow.compute as pc
    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def loud(batch):
    ...     return batch.set_column(0, "word", pc.utf8_upper(batch["word"]))
    >>> def build(scope):
    ...     return to_stream(scope, ["tea", "milk"]).to_columns({"word": str}).map(loud).extract()
    >>> example(build).rows()
    ['TEA', 'MILK']

    `schema` is that of the result; without one, it is what `function` makes of an empty batch.
    """
    return _per_batch(columns, function, schema, name, same_length=True)


def flat_map(columns: Columns, function: OfBatch, *, schema: Schema | None = None, name: str = "flat_map") -> Columns:
    """Replace each batch by `function(batch)`, which has as many rows as it likes; for instance `split_words("line")`.

    >>> from framework.launch.execute import example
    >>> from operators.columns import split_words
    >>> from operators.input.to_stream import to_stream
    >>> def build(scope):
    ...     lines = to_stream(scope, ["to be", "or not"]).to_columns({"line": str})
    ...     return lines.flat_map(split_words("line")).extract()
    >>> example(build).rows()
    ['to', 'be', 'or', 'not']
    """
    return _per_batch(columns, function, schema, name, same_length=False)


def filter(columns: Columns, predicate: Callable[[pa.RecordBatch], Any], *, name: str = "filter") -> Columns:
    """Keep the rows for which `predicate(batch)`, an array of truth values, is true.

    >>> import pyarrow.compute as pc
    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def build(scope):
    ...     sales = to_stream(scope, [("tea", 3), ("milk", 1)]).to_columns({"what": str, "cents": int})
    ...     return sales.filter(lambda batch: pc.greater(batch["cents"], 2)).extract()
    >>> example(build).rows()
    [('tea', 3)]
    """
    _try_on_empty(lambda batch: batch.filter(predicate(batch)), columns.schema, name)
    return _per_batch(columns, lambda batch: batch.filter(predicate(batch)), columns.schema, name, same_length=False)


def _per_batch(columns: Columns, function: OfBatch, schema: Schema | None, name: str, *, same_length: bool) -> Columns:
    from operators.columns.stream import Columns

    result = _try_on_empty(function, columns.schema, name).schema if schema is None else arrow_schema(schema)
    builder = columns.scope.operator(name)
    input = builder.input(columns.outlet, Pipeline())
    output, outlet = builder.output()

    def logic() -> None:
        for capability, batch in input:
            made = function(batch)
            if not isinstance(made, pa.RecordBatch) or not made.schema.equals(result):
                raise RecordUnfit(
                    f"operator {name!r} is to give batches of {_fields_of(result)}, and gave {_kind_of(made)}"
                )
            if same_length and len(made) != len(batch):
                raise RecordUnfit(
                    f"operator {name!r} received {len(batch)} rows and gave {len(made)}; `flat_map` takes a function "
                    f"that changes their number"
                )
            output.session(capability).give_container(made)

    builder.build(lambda _: logic, notify=False)
    return Columns(outlet, result)


def _try_on_empty(function: Callable[[pa.RecordBatch], Any], schema: pa.Schema, name: str) -> pa.RecordBatch:
    """A function's result on an empty batch."""
    try:
        made = function(pa.RecordBatch.from_pylist([], schema=schema))
    except Exception as error:
        raise GraphError(
            f"operator {name!r} cannot take batches of {_fields_of(schema)}: its function, called on an empty one, "
            f"raised {type(error).__name__}: {error}{_line_of(error)}"
        ) from error
    if not isinstance(made, pa.RecordBatch):
        raise GraphError(f"operator {name!r} takes a function that returns a batch, and it returned {_kind_of(made)}")
    return made


def _line_of(error: Exception) -> str:
    """The innermost line of the job's file that led to an error."""
    shown = own_frames(error)
    lines = [frame for frame in shown if frame.filename == shown[0].filename]
    return f"\n  {lines[-1].filename}:{lines[-1].lineno}: {lines[-1].line}" if lines else ""


def _fields_of(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{field.name}: {field.type}" for field in schema) + ")"


def _kind_of(made: Any) -> str:
    return _fields_of(made.schema) if isinstance(made, pa.RecordBatch) else f"a {type(made).__name__}"
