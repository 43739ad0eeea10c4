"""From a job into Spark: offsets are epochs that are complete, and what lies between two of them never changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from framework.errors import ConfigError
from operators.broker.client import BrokerClient, Pieces
from operators.spark.gc_tuning import keep_what_is_loaded

WAIT_S = 0.1
"""How long Spark is let wait for something to read: otherwise it asks a hundred times a second."""

Offset = dict[str, Any]


class Pickup(InputPartition):
    """What one task reads."""

    def __init__(self, pieces: Pieces) -> None:
        super().__init__(pieces)
        self.pieces = pieces


@dataclass(frozen=True)
class Origin:
    """Where the rows come from."""

    client: BrokerClient
    job: str
    run: str
    output: str
    schema: pa.Schema
    """As Spark expects it."""

    def parts(self, start: int, end: int) -> Sequence[Pickup]:
        """What lies between two offsets."""
        return [Pickup(pieces) for pieces in self.client.parts(self.output, start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        assert isinstance(partition, Pickup), partition
        for batch in self.client.read(self.output, partition.pieces):
            yield batch.cast(self.schema)
        keep_what_is_loaded()


class BatchReader(DataSourceReader):
    """Reads all that an output has kept, once all that was committed to the job has come out."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    def partitions(self) -> Sequence[InputPartition]:
        first, end = self._origin.client.latest(self._origin.output, settle=True)
        return self._origin.parts(first, end) or [Pickup(())]  # for none Spark would make up one of its own

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._origin.read(partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads an output as it comes, and has the job forget what Spark has committed."""

    def __init__(self, origin: Origin, *, rows_max: int | None, bytes_max: int | None) -> None:
        self._origin = origin
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._target: int | None = None

    def initialOffset(self) -> Offset:
        first, _ = self._origin.client.latest(self._origin.output)
        return self._offset(first)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._rows_max is not None:
            return ReadMaxRows(self._rows_max)
        return ReadAllAvailable() if self._bytes_max is None else ReadMaxBytes(self._bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:
        _, self._target = self._origin.client.latest(self._origin.output, settle=True)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._bytes_max
        if isinstance(limit, ReadAllAvailable):
            rows_max = bytes_max = None
        begin = self._epoch(start)
        _, end = self._origin.client.latest(
            self._origin.output,
            begin,
            rows_max=rows_max,
            bytes_max=bytes_max,
            within_s=WAIT_S if self._target is None else 0.0,
        )
        return self._offset(end if self._target is None else min(end, max(begin, self._target)))

    def reportLatestOffset(self) -> Offset:
        _, end = self._origin.client.latest(self._origin.output)
        return self._offset(end)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return self._origin.parts(self._epoch(start), self._epoch(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._origin.read(partition)

    def commit(self, end: Offset) -> None:
        self._origin.client.forget(self._origin.output, self._epoch(end))

    def _offset(self, epoch: int) -> Offset:
        return {"run": self._origin.run, "epoch": epoch}

    def _epoch(self, offset: Offset) -> int:
        if offset["run"] != self._origin.run:
            raise ConfigError(
                f"this query has read from a run of job {self._origin.job!r} that has ended; what runs now began anew, "
                f"and its epochs are others; begin the query with a new checkpoint"
            )
        return int(offset["epoch"])
