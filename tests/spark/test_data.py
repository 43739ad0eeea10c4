"""Spark feeds jobs and reads them: each row once, whatever fails and is tried again, and compared with Spark's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from operators import Flow, Job
from operators.spark import JobOnSpark
from tests.process.jobs import wait_until
from tests.processes import TIMEOUT_S

pytestmark = [pytest.mark.timeout(240), pytest.mark.filterwarnings("default")]

FILES = 4


@pytest.fixture
def counting(spark: SparkSession, folder: Path) -> Iterator[JobOnSpark]:
    """A job that counts words, on two processes."""
    job = Job("counts")

    @job.dataflow
    def counts(flow: Flow) -> None:
        def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
            return total + n, [(word, total + n)]

        words = flow.input("lines").flat_map(str.split).map(lambda word: (word, 1))
        flow.output("counts", words.stateful_state_machine(count, initial=0, bins=16), {"word": str, "count": int})

    with JobOnSpark(spark, job, workers=2) as running:
        yield running


def lines(spark: SparkSession, folder: Path, files: int = FILES) -> DataFrame:
    """A stream of lines, a file per batch; there is one file more each time."""
    directory = folder / "lines"
    directory.mkdir(exist_ok=True)
    for number in range(len(list(directory.iterdir())), files):
        text = "\n".join(" ".join(f"w{(number + line * word) % 7}" for word in range(6)) for line in range(40))
        (directory / f"{number}.txt").write_text(text)
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(directory))


def expected(spark: SparkSession, folder: Path) -> dict[str, int]:
    """What Spark itself counts."""
    words = spark.read.text(str(folder / "lines")).select(F.explode(F.split("value", r"\s+")).alias("word"))
    return {row["word"]: row["count"] for row in words.where("word != ''").groupBy("word").count().collect()}


def check_counts(spark: SparkSession, folder: Path, rows: list[Row]) -> None:
    """Of each word all counts from 1 on are there, each once, up to Spark's own."""
    counts: dict[str, list[int]] = {}
    for word, count in rows:
        counts.setdefault(word, []).append(count)
    assert {word: sorted(each) for word, each in counts.items()} == {
        word: list(range(1, total + 1)) for word, total in expected(spark, folder).items()
    }


def done(query: StreamingQuery | None) -> None:
    assert query is not None
    query.awaitTermination(int(TIMEOUT_S))
    assert not query.isActive, (query.status, query.lastProgress)


def written(counting: JobOnSpark, folder: Path, **options: str) -> DataFrame:
    """What has come out so far, by a query that goes on where it was when it was last called."""
    stream = counting.read("counts")
    writer = stream.writeStream.format("parquet").option("path", str(folder / "out")).options(**options)
    done(writer.option("checkpointLocation", str(folder / "reading")).trigger(availableNow=True).start())
    return stream.sparkSession.read.parquet(str(folder / "out"))


def test_a_stream_in_and_a_stream_out_while_processes_come_and_go(
    spark: SparkSession, folder: Path, counting: JobOnSpark
):
    done(counting.feed(lines(spark, folder, 1), availableNow=True))
    first = written(counting, folder).collect()
    assert counting.scale(3).bins_moved > 0
    feed = counting.feed(lines(spark, folder), checkpoint=str(folder / "again"), availableNow=True)
    counting.scale(1)
    done(feed)
    rows = written(counting, folder).collect()
    assert set(first) <= set(rows), "what was written is still there"
    # The second query had a checkpoint of its own, and so read the first file again.
    (folder / "lines" / "0-again.txt").write_text((folder / "lines" / "0.txt").read_text())
    check_counts(spark, folder, rows)


def test_a_dataframe_through_a_job(spark: SparkSession, folder: Path, counting: JobOnSpark):
    lines(spark, folder)
    text = spark.read.text(str(folder / "lines"))
    assert counting.read(stream=False).collect() == [], "nothing has come out yet"
    check_counts(spark, folder, text.transform(counting).collect())
    stream = lines(spark, folder, FILES).limit(0).transform(counting)
    assert (stream.isStreaming, stream.columns) == (True, ["word", "count"])


def test_a_job_that_is_finished_gives_all_it_has_and_takes_nothing_more(
    spark: SparkSession, folder: Path, counting: JobOnSpark
):
    done(counting.feed(lines(spark, folder), availableNow=True))
    counting.finish()
    check_counts(spark, folder, counting.read(stream=False).collect())
    with pytest.raises(PySparkException, match="input 'lines' has ended, and takes nothing more"):
        spark.read.text(str(folder / "lines")).transform(counting)


def test_a_job_that_was_fed_nothing_ends_when_it_is_finished(counting: JobOnSpark):
    counting.finish()
    assert counting.wait(60)


def test_a_query_that_is_stopped_and_started_again_loses_nothing(
    spark: SparkSession, folder: Path, counting: JobOnSpark
):
    """Once between batches, and once as if the driver had died after the job had committed, and before Spark knew."""
    checkpoint = str(folder / "feeding")
    done(counting.feed(lines(spark, folder, 2), checkpoint=checkpoint, availableNow=True))
    (folder / "feeding" / "commits" / "1").unlink()
    (folder / "feeding" / "commits" / ".1.crc").unlink()
    again = counting.feed(lines(spark, folder), checkpoint=checkpoint, availableNow=True)
    done(again)
    assert again is not None
    assert [progress["batchId"] for progress in again.recentProgress] == [1, 2, 3], "batch 1 was sent again"
    check_counts(spark, folder, counting.read(stream=False).collect())


def test_a_query_that_begins_with_batches_without_tasks_is_known_by_its_checkpoint(
    spark: SparkSession, folder: Path, counting: JobOnSpark
):
    """Spark makes no task for the first batch, as it sees that no row is left of it."""
    checkpoint = str(folder / "feeding")
    done(counting.feed(lines(spark, folder, 1).where("false"), checkpoint=checkpoint, availableNow=True))
    done(counting.feed(lines(spark, folder, 2), checkpoint=checkpoint, availableNow=True))
    (folder / "lines" / "0.txt").write_text("")
    check_counts(spark, folder, counting.read(stream=False).collect())


def test_a_dataframe_that_is_written_again_under_its_name_counts_once(
    spark: SparkSession, folder: Path, counting: JobOnSpark
):
    """As by a driver that died before it knew of its commit."""
    lines(spark, folder, 2)
    text = spark.read.text(str(folder / "lines"))
    for _ in range(2):
        text.transform(counting, batch="monday")
    check_counts(spark, folder, counting.read(stream=False).collect())


def test_tasks_that_fail_are_tried_again_and_count_once(spark: SparkSession, folder: Path, counting: JobOnSpark):
    """Each task fails at first after it has sent some of its rows."""

    def fail_once(batches: Iterator[object]) -> Iterator[object]:
        from pyspark import TaskContext

        context = TaskContext.get()
        for batch in batches:
            yield batch
            if context is not None and context.attemptNumber() == 0:
                raise RuntimeError("fails the first time")

    stream = lines(spark, folder, 1).repartition(2)
    failing = stream.mapInArrow(fail_once, "value string")
    done(counting.feed(failing, availableNow=True))
    check_counts(spark, folder, counting.read(stream=False).collect())


DRIVER = """
import sys, time
from pathlib import Path
from operators.spark import SparkOptions, open_session, register

folder = Path(sys.argv[1])

def hang(batches):
    from pyspark import TaskContext
    for batch in batches:
        yield batch
    if TaskContext.get().partitionId() == 1:
        Path(folder, "hangs").touch()
        time.sleep(300)

with open_session("dies", SparkOptions("local[2]")) as spark:
    register(spark)
    stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "lines")).repartition(2)
    writer = stream.mapInArrow(hang, "value string").writeStream.format("hailer")
    writer.option("checkpointLocation", str(folder / "feeding")).start().awaitTermination()
"""


def test_a_driver_that_dies_between_writing_and_committing(spark: SparkSession, folder: Path, counting: JobOnSpark):
    stream = lines(spark, folder, 1).repartition(2)
    (folder / "driver.py").write_text(dedent(DRIVER))
    driver = subprocess.Popen([sys.executable, "driver.py", str(folder)], start_new_session=True)
    try:
        wait_until(lambda: driver.poll() is not None or (folder / "hangs").exists(), wait_s=120)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    done(counting.feed(stream, checkpoint=str(folder / "feeding"), availableNow=True))
    check_counts(spark, folder, counting.read(stream=False).collect())


def test_readers_that_read_again_read_the_same_within_their_limits(
    spark: SparkSession, folder: Path, counting: JobOnSpark
):
    done(counting.feed(lines(spark, folder), availableNow=True))
    batches: list[tuple[int, list[Row]]] = []
    stream = spark.readStream.format("hailer").options(directory=str(folder), maxRowsPerTrigger="300").load()
    writer = stream.writeStream.foreachBatch(lambda rows, number: batches.append((number, rows.collect())))
    writer = writer.option("checkpointLocation", str(folder / "reading")).trigger(availableNow=True)
    done(writer.start())
    assert [len(rows) for _, rows in batches] == [240] * FILES, "an epoch at a time: two would be more than 300"
    check_counts(spark, folder, [row for _, rows in batches for row in rows])
    # As if it had died after its last batch had come out, and before it knew.
    (folder / "reading" / "commits" / f"{FILES - 1}").unlink()
    (folder / "reading" / "commits" / f".{FILES - 1}.crc").unlink()
    done(writer.start())
    assert batches[FILES:] == [batches[FILES - 1]]


def test_a_query_that_has_read_another_run_is_told_to_begin_anew(
    spark: SparkSession, folder: Path, counting: JobOnSpark
):
    done(counting.feed(lines(spark, folder, 1), availableNow=True))
    written(counting, folder)
    offsets = folder / "reading" / "offsets" / "0"
    text = offsets.read_text()
    offsets.write_text(text.replace(json.loads(text.splitlines()[-1])["run"], "another"))
    (folder / "reading" / "offsets" / ".0.crc").unlink()
    with pytest.raises(PySparkException, match="begin the query with a new checkpoint"):
        written(counting, folder)


WIDE = "b boolean, i int, l long, f float, d double, s string, x binary, n decimal(20,3), day date, at timestamp, " + (
    "tags array<string>, scores map<string, double>, place struct<x: int, y: struct<z: string>>"
)


def test_all_types_come_through_and_mismatches_are_found_before_any_data_moves(spark: SparkSession, folder: Path):
    from operators.spark.schemas import spoken_schema

    row = (
        True,
        -1,
        2**40,
        0.5,
        1e300,
        "tea",
        b"\x00\xff",
        Decimal("12345.678"),
        date(2026, 1, 2),
        datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
        ["a", None],
        {"k": 1.5},
        Row(x=1, y=Row(z="deep")),
    )
    frame = spark.createDataFrame([row, (None,) * len(row)], WIDE)
    schema, job = spoken_schema(frame.schema), Job("types")

    @job.dataflow
    def types(flow: Flow) -> None:
        flow.output("same", flow.input("rows", schema), schema)

    with JobOnSpark(spark, job, workers=1) as same:
        for wrong, said in [
            (frame.drop("s"), "takes .*s: string.*and the DataFrame has"),
            (frame.withColumn("i", F.col("i").cast("string")), "i: string"),
        ]:
            with pytest.raises(PySparkException, match=said):
                wrong.transform(same)
        shuffled = frame.select(*reversed(frame.columns))
        came = shuffled.transform(same)
        assert [field.dataType for field in came.schema] == [field.dataType for field in frame.schema]
        assert sorted(came.collect(), key=str) == sorted(frame.collect(), key=str)
        with pytest.raises(PySparkException, match=r"has no option 'ouput'.*did you mean 'output'"):
            spark.read.format("hailer").options(directory=str(folder), ouput="same").load()
        with pytest.raises(PySparkException, match="has no output 'some'; it has 'same'; did you mean 'same'"):
            same.read("some")
