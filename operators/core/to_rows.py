"""From columns to rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framework.dataflow.pact import Pipeline
from operators.schema import rows_of

if TYPE_CHECKING:
    from operators.columns.stream import Columns
    from operators.stream import Stream


def rows_from_columns(columns: Columns | Stream[Any], *, name: str = "to_rows") -> Stream[Any]:
    """Turn Arrow batches into records: the value of the one column, or a tuple of those of several.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(
    ...     lambda scope: to_stream(scope, [("tea", 2), ("milk", 1)])
    ...     .to_columns({"word": str, "count": int})
    ...     .to_rows()
    ...     .extract()
    ... ).rows()
    [('tea', 2), ('milk', 1)]
    """
    from operators.stream import Stream

    builder = columns.scope.operator(name)
    input = builder.input(columns.outlet, Pipeline())
    output, outlet = builder.output()

    def logic() -> None:
        for capability, batch in input:
            output.session(capability).give_container(rows_of(batch))

    builder.build(lambda _: logic, notify=False)
    return Stream(outlet)
