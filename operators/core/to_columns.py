"""From rows to columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framework.dataflow.handle import InputHandle, OutputHandle
from operators.schema import Schema, arrow_schema, batch_of

if TYPE_CHECKING:
    from operators.columns.stream import Columns
    from operators.stream import Stream


def to_columns(stream: Stream[Any], schema: Schema, *, name: str = "to_columns") -> Columns:
    """Turn records into Arrow batches of `schema`; a record that does not fit is `RecordUnfit`.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def build(scope):
    ...     columns = to_stream(scope, ["tea", "milk"]).to_columns({"word": str})
    ...     columns.inspect_batch(lambda time, batch: print(time, batch.to_pydict()))
    >>> example(build)
    0 {'word': ['tea', 'milk']}
    """
    from operators.columns.stream import Columns

    columns = arrow_schema(schema)

    def logic(input: InputHandle, output: OutputHandle) -> None:
        for capability, rows in input:
            output.session(capability).give_container(batch_of(rows, columns, f"operator {name!r}"))

    return Columns(stream.unary(logic, name=name).outlet, columns)
