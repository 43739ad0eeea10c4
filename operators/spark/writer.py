"""From Spark into a job: tasks stage what they have, and the driver's commit releases it.

What a task writes is bound to its query and batch, which Spark tells every task; the commit names the attempts that
count. A batch that Spark sends again after a restart is recognised by the query's id, which its checkpoint keeps. A
DataFrame that is written again is recognised by the name that its writer gave it, if it did.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from operators.broker.client import BrokerClient
from operators.spark.gc_tuning import keep_what_is_loaded
from operators.spark.schemas import fitted

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""How Spark names, among the local properties of a task, what it works for."""


@dataclass
class Staged(WriterCommitMessage):
    """An attempt that is complete."""

    query: str
    attempt: str


@dataclass(frozen=True)
class WriteTarget:
    """Where the rows go."""

    client: BrokerClient
    input: str
    schema: pa.Schema | None
    final: bool
    """Whether the input ends with them."""

    def stage(self, query: str, batch: int, batches: Iterator[pa.RecordBatch]) -> Staged:
        """Stage what an attempt of a task has."""
        attempt = uuid.uuid4().hex
        schema = self.schema
        fit = batches if schema is None else (fitted(one, schema) for one in batches)
        self.client.stage(self.input, attempt, query, batch, fit)
        keep_what_is_loaded()
        return Staged(query, attempt)

    def commit(
        self, query: str, batch: int, messages: list[WriterCommitMessage | None], checkpoint: str | None = None
    ) -> None:
        """Commit the attempts that count."""
        self.client.commit(self.input, query, batch, _attempts(messages), checkpoint=checkpoint, last=self.final)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop the attempts that are known."""
        self.client.abort(self.input, _attempts(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def __init__(self, target: WriteTarget, checkpoint: str | None) -> None:
        """`checkpoint` is where the query keeps its own state, if that is known."""
        self._target = target
        self._checkpoint = checkpoint

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
        assert query is not None, "Spark names no query to this task"
        assert batch is not None, "Spark names no batch to this task"
        return self._target.stage(query, int(batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        queries = {message.query for message in messages if isinstance(message, Staged)}
        if not queries:  # no task, no rows, and none that names the query
            self._target.client.skip(self._target.input, self._checkpoint, batchId)
            return
        [query] = queries
        self._target.commit(query, batchId, messages, self._checkpoint)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._target.abort(messages)


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame, as the one batch of a query of its own."""

    def __init__(self, target: WriteTarget, name: str | None) -> None:
        """`name`: by which it is known that the same DataFrame was written before."""
        self._target = target
        self._query = uuid.uuid4().hex if name is None else f"batch {name}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return self._target.stage(self._query, 0, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._target.commit(self._query, 0, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._target.abort(messages)


def _attempts(messages: list[WriterCommitMessage | None]) -> list[str]:
    return [message.attempt for message in messages if isinstance(message, Staged)]
