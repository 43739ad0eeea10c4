"""What Spark is asked to run with while it feeds a job, where the session does not say otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BATCH_BYTES = 1024 * 1024
"""How much of a DataFrame is one Arrow batch. Larger ones fall out of every cache between JVM, Python and the job."""

SMALL_BATCHES = {"spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES)}

PARALLELISM = "spark.sql.leafNodeDefaultParallelism"

RENAMING = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager"
}
"""Spark's own way to write checkpoints on most file systems, here for all: its other one, which it prefers for local
files, starts ten processes for each file that it writes."""

INITIALIZING = "Initializing"
"""How the status of a query begins that has not made its sources yet."""

START_S = 30.0
POLL_S = 0.01

_setting = Lock()


@contextmanager
def settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    """Have a session say this for the length of the block, of what it says nothing about."""
    with _setting:
        ours = {key: value for key, value in wanted.items() if spark.conf.get(key, None) is None}
        for key, value in ours.items():
            spark.conf.set(key, value)
        try:
            yield
        finally:
            for key in ours:
                spark.conf.unset(key)


def wait_for_sources(query: StreamingQuery) -> None:
    """Wait until a query has made its sources: of settings, these read what their session says then."""
    deadline_s = time.monotonic() + START_S
    while query.status["message"].startswith(INITIALIZING) and query.isActive and time.monotonic() < deadline_s:
        time.sleep(POLL_S)


class Slots:
    """Tells a session of the slots that a job holds, so that it does not cut its files for them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._told: str | None = None

    def hold(self, slots: int) -> None:
        """Take account of the `slots` that the job holds now."""
        context = self._spark.sparkContext
        if context.getConf().contains("spark.default.parallelism"):
            return
        if self._spark.conf.get(PARALLELISM, None) == self._told:
            self._told = str(max(1, context.defaultParallelism - slots))
            self._spark.conf.set(PARALLELISM, self._told)

    def free(self) -> None:
        """None is held now."""
        if self._told is not None and self._spark.conf.get(PARALLELISM, None) == self._told:
            self._spark.conf.unset(PARALLELISM)
        self._told = None
