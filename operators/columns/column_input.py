"""An input of columns that the program feeds, batch by batch."""

from __future__ import annotations

import pyarrow as pa

from framework.dataflow.scope import Scope
from operators.columns.stream import Columns
from operators.errors import RecordUnfit
from operators.input.input import Input
from operators.schema import Schema, arrow_schema

ROWS_MAX = 2**19
"""Larger batches are sent in slices, to bound a worker's step."""


class ColumnInput:
    """A handle to send batches with, at an epoch that only moves forward.

    >>> import pyarrow as pa
    >>> from framework.launch.execute import execute
    >>> def main(worker):
    ...     words = ColumnInput({"word": str}, "words")
    ...     with worker.dataflow() as scope:
    ...         result = words.stream(scope).extract()
    ...     words.send(pa.record_batch({"word": ["tea", "milk"]}))
    ...     return result
    >>> [result] = execute(main)
    >>> result.by_time()
    {0: ['tea', 'milk']}

    It slows down and is closed as an `Input` is.
    """

    def __init__(self, schema: Schema, name: str = "input") -> None:
        self.schema = arrow_schema(schema)
        self._name = name
        self._input: Input[pa.RecordBatch] = Input(name)

    def stream(self, scope: Scope) -> Columns:
        """The stream of what is sent, in `scope`."""
        return Columns(self._input.stream(scope).outlet, self.schema)

    @property
    def time(self) -> int:
        """The epoch that batches are sent at."""
        return self._input.time

    def send(self, batch: pa.RecordBatch) -> None:
        """Send a batch at the current epoch."""
        if not isinstance(batch, pa.RecordBatch) or not batch.schema.equals(self.schema):
            got = batch.schema if isinstance(batch, pa.RecordBatch) else type(batch).__name__
            raise RecordUnfit(f"input {self._name!r} takes batches of\n{self.schema}\nand got\n{got}")
        for start in range(0, len(batch), ROWS_MAX):
            self._input.send_container(batch.slice(start, ROWS_MAX))

    def advance_to(self, epoch: int) -> None:
        """Promise not to send before `epoch` again."""
        self._input.advance_to(epoch)

    def close(self) -> None:
        """Promise to send nothing more."""
        self._input.close()
