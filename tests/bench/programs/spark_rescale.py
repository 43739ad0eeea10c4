"""Counts by key while files keep coming, and lets it run on more; prints the gaps between results that were felt.

    python tests/bench/programs/spark_rescale.py (hailer | groupBy) KEYS FOLDER

First every key gets a state. Then a small file comes every so often. `hailer` scales its job from two processes to
three; `groupBy` stops Spark's own query with its session, and starts both again with three slots instead of two.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import count as numbers
from pathlib import Path
from random import Random
from threading import Event, Thread

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from operators import Flow, Job
from operators.spark import JobOnSpark, SparkOptions, open_session

SETTINGS = (
    ("spark.sql.shuffle.partitions", "3"),
    ("spark.sql.streaming.numRecentProgressUpdates", "100000"),
    ("spark.sql.streaming.noDataMicroBatches.enabled", "false"),
    ("spark.driver.memory", "3g"),
)
LOAD_FILES, RECORDS, EVERY_S = 4, 500, 0.1
QUIET_S, AFTER_S, TIMEOUT_S = 10.0, 5.0, 300.0


def main(system: str, keys: int, folder: Path) -> None:
    os.chdir(folder)  # where a job's run directory is
    files = folder / "files"
    files.mkdir()
    per_file = -(-keys // LOAD_FILES)
    for number in range(LOAD_FILES):
        first = number * per_file
        write_file(files, f"load-{number}", range(first, min(first + per_file, keys)))
    felt = scale_job(keys, files) if system == "hailer" else restart_query(keys, files)
    print(json.dumps(felt), flush=True)


# Hailer


def count(key: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(key, total)]


def counting_job() -> Job:
    """A count per key."""
    job = Job("counts")

    @job.dataflow
    def counts(flow: Flow) -> None:
        keyed = flow.input("keys").map(lambda key: (key, 1))
        flow.output("counts", keyed.stateful_state_machine(count, initial=0), {"key": str, "count": int})

    return job


def scale_job(keys: int, files: Path) -> dict[str, float]:
    """The longest gap before, and from the moment that a third process is asked for until a while after it has come."""
    with (
        open_session("scaled", SparkOptions("local[5]", SETTINGS)) as spark,
        JobOnSpark(spark, counting_job(), workers=2) as counting,
    ):
        counting.feed(key_stream(spark, files))
        query = into_nothing(counting.read(), files.with_name("reading"))
        wait_for(lambda: rows_read(query) >= keys)
        with files_coming(files, keys) as begin:
            begin()
            quiet_s = settle(query)
            time.sleep(QUIET_S)
            scaled_s = time.time()
            outcome = counting.scale(3)
            ended_s = time.time()
            time.sleep(AFTER_S)
        felt = {
            "undisturbed_s": longest_gap(query, quiet_s, scaled_s),
            "gap_s": longest_gap(query, scaled_s, time.time()),
            "scaling_s": ended_s - scaled_s,
            "stall_s": outcome.stall_s_max,
            "moved_bytes": outcome.state_bytes,
        }
        query.stop()
    return felt


# Spark's own


def restart_query(keys: int, files: Path) -> dict[str, float]:
    """The longest gap before, and from `stop` to the end of the first batch of the query that goes on."""
    checkpoint = files.with_name("checkpoint")
    with files_coming(files, keys) as begin:
        with open_session("two slots", SparkOptions("local[2]", SETTINGS)) as spark:
            query = into_nothing(key_stream(spark, files).groupBy("value").count(), checkpoint)
            wait_for(lambda: rows_read(query) >= keys)
            begin()
            quiet_s = settle(query)
            time.sleep(QUIET_S)
            stopped_s = time.time()
            undisturbed_s = longest_gap(query, quiet_s, stopped_s)
            query.stop()
        with open_session("three slots", SparkOptions("local[3]", SETTINGS)) as spark:
            query = into_nothing(key_stream(spark, files).groupBy("value").count(), checkpoint)
            wait_for(lambda: bool(results_s(query)))
            gap_s = results_s(query)[0] - stopped_s
            query.stop()
    return {"undisturbed_s": undisturbed_s, "gap_s": gap_s}


# Both


def key_stream(spark: SparkSession, files: Path) -> DataFrame:
    """The keys of all files, as they come."""
    return spark.readStream.text(str(files))


def into_nothing(stream: DataFrame, checkpoint: Path) -> StreamingQuery:
    """A query whose rows are dropped."""
    writer = stream.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoint))
    return writer.start()


def rows_read(query: StreamingQuery) -> int:
    """How many rows a query has read."""
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def results_s(query: StreamingQuery) -> list[float]:
    """When batches with rows in them were complete."""
    return [
        datetime.fromisoformat(progress["timestamp"]).timestamp() + progress["durationMs"]["triggerExecution"] / 1000
        for progress in query.recentProgress
        if progress["numInputRows"]
    ]


def settle(query: StreamingQuery) -> float:
    """Wait for a few results of the files that come; when the last was."""
    before = len(results_s(query))
    wait_for(lambda: len(results_s(query)) >= before + 3)
    return results_s(query)[-1]


def longest_gap(query: StreamingQuery, since_s: float, until_s: float) -> float:
    """The longest time without a result between two moments, counted from the last result before the first."""
    times = results_s(query)
    during = [max((one for one in times if one <= since_s), default=since_s)]
    during += [one for one in times if since_s < one <= until_s]
    return max(later - earlier for earlier, later in zip(during, [*during[1:], until_s], strict=True))


@contextmanager
def files_coming(files: Path, keys: int) -> Iterator[Callable[[], None]]:
    """Have small files come from when the function is called to the end of the block."""
    begun, ended, dice = Event(), Event(), Random(1)

    def write() -> None:
        begun.wait()
        for number in numbers():
            if ended.wait(EVERY_S):
                return
            write_file(files, f"{number}", (dice.randrange(keys) for _ in range(RECORDS)))

    thread = Thread(target=write)
    thread.start()
    try:
        yield begun.set
    finally:
        ended.set()
        begun.set()
        thread.join()


def write_file(files: Path, name: str, keys: Iterator[int] | range) -> None:
    """A file that is there in full or not at all."""
    hidden = files / f".{name}"
    hidden.write_text("".join(f"key{key}\n" for key in keys))
    hidden.rename(files / f"{name}.txt")


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, f"nothing came of it in {TIMEOUT_S} s"
        time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
