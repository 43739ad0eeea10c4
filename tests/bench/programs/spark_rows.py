"""Counts the words of files with Spark and Python, one of several ways; prints how long that took.

    python tests/bench/programs/spark_rows.py SYSTEM FOLDER

SYSTEM is `hailer`, `hailer-columns`, or one of Spark's own in `SPARKS`. FOLDER has folders `warm` and `timed`,
with files of lines. Each is streamed, a file per batch, into a sink that drops what it gets; the time of the first is
not counted.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from operators import Flow, Job
from operators.columns import aggregates, split_words
from operators.spark import JobOnSpark, SparkOptions, open_session
from tests.bench.programs.cpu import Spent, spent

CORES, WORKERS = 2, 2
COUNTS = "word string, count long"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = (
    ("spark.sql.shuffle.partitions", str(CORES)),
    ("spark.sql.streaming.stateStore.providerClass", ROCKSDB),
    ("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true"),
    ("spark.sql.streaming.noDataMicroBatches.enabled", "false"),
    ("spark.driver.memory", "2g"),
)
TIMEOUT_S = 300
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Taken:
    """What the counting of some files took, and how many counts came of it."""

    seconds: float
    rows: int
    cpu_s: Spent


def main(system: str, folder: Path) -> None:
    os.chdir(folder)  # where a job's run directory is
    slots = CORES + (WORKERS if system in HAILERS else 0)
    with open_session(system, SparkOptions(f"local[{slots}]", SETTINGS)) as spark:
        run = partial(run_job, *HAILERS[system]) if system in HAILERS else partial(run_spark, SPARKS[system])
        print(json.dumps(asdict(run(spark, folder))), flush=True)


# Hailer


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


def wordcount_job() -> Job:
    """The job of `examples/wordcount_job.py`."""
    job = Job("wordcount")

    @job.dataflow
    def wordcount(flow: Flow) -> None:
        words = flow.input("lines").flat_map(str.split).map(lambda word: (word, 1))
        flow.output("counts", words.stateful_state_machine(count, initial=0), {"word": str, "count": int})

    return job


def columns_job() -> Job:
    """The same on columns; like `groupBy`, it puts out one count per word and batch."""
    job = Job("wordcount")

    @job.dataflow
    def wordcount(flow: Flow) -> None:
        words = flow.input_columns("lines", {"value": str}).flat_map(split_words("value"))
        flow.output("counts", words.stateful_aggregate({"count": aggregates.count()}, key="word"))

    return job


def every_word(file: Path) -> int:
    return len(file.read_text().split())


def each_word_once(file: Path) -> int:
    return len(set(file.read_text().split()))


HAILERS: dict[str, tuple[Callable[[], Job], Callable[[Path], int]]] = {
    "hailer": (wordcount_job, every_word),
    "hailer-columns": (columns_job, each_word_once),
}
"""Jobs, and how many counts come of a file."""


def run_job(make: Callable[[], Job], counts: Callable[[Path], int], spark: SparkSession, folder: Path) -> Taken:
    """Through a job that goes on from one folder to the other, and so does the query that reads it."""
    with JobOnSpark(spark, make(), workers=WORKERS) as counting:
        reading = into_nothing(counting.read(), folder / "reading")
        for files in (folder / "warm", folder / "timed"):
            rows = sum(counts(file) for file in files.iterdir())
            taken = through_job(counting, reading, lines(spark, files), rows)
        reading.stop()
    return taken


def through_job(counting: JobOnSpark, reading: StreamingQuery, stream: DataFrame, counts: int) -> Taken:
    """From the first line on its way into the job to the last count out of it."""
    before, begun, began_s = rows_read(reading), spent(), time.monotonic()
    feeding = counting.feed(stream, availableNow=True)
    assert feeding is not None
    rows = wait_for_rows(reading, before + counts, began_s + TIMEOUT_S) - before
    taken = Taken(time.monotonic() - began_s, rows, spent().since(begun))
    feeding.awaitTermination()
    return taken


# Spark's own


def by_groups(words: DataFrame) -> DataFrame:
    """Built in, and no Python: one row per word and batch."""
    return words.groupBy("word").count()


def by_processor(words: DataFrame) -> DataFrame:
    """`transformWithState`: each count of each word."""
    return words.groupBy("word").transformWithState(Counter(), COUNTS, "Update", "None")


class Counter(StatefulProcessor):
    """A running count."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", "total long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        [word] = key
        [total] = self._total.get() or (0,)
        for _ in rows:
            total += 1
            yield Row(word=word, count=total)
        self._total.update((total,))

    def close(self) -> None:
        pass


def by_pandas(words: DataFrame) -> DataFrame:
    """`applyInPandasWithState`: each count of each word."""
    return words.groupBy("word").applyInPandasWithState(running, COUNTS, "total long", "Update", "NoTimeout")


def running(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    import pandas as pd

    [word] = key
    [total] = state.get if state.exists else (0,)
    for frame in frames:
        yield pd.DataFrame({"word": word, "count": range(total + 1, total + 1 + len(frame))})
        total += len(frame)
    state.update((total,))


def by_nobody(words: DataFrame) -> DataFrame:
    """What it takes to read and split alone."""
    return words


SPARKS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "groupBy": by_groups,
    "transformWithState": by_processor,
    "applyInPandasWithState": by_pandas,
    "nothing": by_nobody,
}


def run_spark(counts: Callable[[DataFrame], DataFrame], spark: SparkSession, folder: Path) -> Taken:
    """Through a query of its own for each folder."""
    for files in (folder / "warm", folder / "timed"):
        words = lines(spark, files).select(F.explode(F.split("value", " ")).alias("word"))
        counted = counts(words).observe("counted", F.count("*").alias("rows"))
        begun, began_s = spent(), time.monotonic()
        query = into_nothing(counted, folder / f"{files.name}-checkpoint", availableNow=True)
        query.awaitTermination(TIMEOUT_S)
        took_s = time.monotonic() - began_s
        rows = sum(progress["observedMetrics"]["counted"]["rows"] for progress in query.recentProgress)
        taken = Taken(took_s, rows, spent().since(begun))
    return taken


# Both


def lines(spark: SparkSession, files: Path) -> DataFrame:
    """The lines of files, a file per batch."""
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(files))


def into_nothing(stream: DataFrame, checkpoint: Path, **trigger: bool) -> StreamingQuery:
    """A query whose rows are dropped."""
    writer = stream.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start()


def rows_read(query: StreamingQuery) -> int:
    """How many rows a query has read."""
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def wait_for_rows(query: StreamingQuery, wanted: int, deadline_s: float) -> int:
    """How many rows a query has read, once they are as many as wanted."""
    told = None
    while True:
        latest = query.lastProgress
        if latest is not None and latest["timestamp"] != told:  # all reports each time would take half of a core
            told = latest["timestamp"]
            if (rows := rows_read(query)) >= wanted:
                return rows
        assert time.monotonic() < deadline_s, f"fewer than {wanted} rows after {TIMEOUT_S} s"
        time.sleep(POLL_S)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
