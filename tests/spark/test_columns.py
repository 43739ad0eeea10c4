"""Spark and jobs of columns: batches go in and come out as they are, and what is folded is what Spark finds itself."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from framework.errors import ProcessesFailed
from operators import Flow, Job
from operators.columns import aggregates as agg
from operators.columns import split_words
from operators.spark import JobOnSpark
from operators.spark.schemas import spoken_schema
from tests.spark.test_data import check_counts, done, expected, lines, written

pytestmark = [pytest.mark.timeout(240), pytest.mark.filterwarnings("default")]


def test_a_stream_in_and_a_stream_out_while_processes_come_and_go(spark: SparkSession, folder: Path):
    job = Job("counts")

    @job.dataflow
    def counts(flow: Flow) -> None:
        def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
            return total + n, [(word, total + n)]

        words = flow.input_columns("lines", {"value": str}).flat_map(split_words("value"))
        totals = words.stateful_state_machine(
            count, key="word", state={"total": int}, initial=0, output={"word": str, "count": int}, bins=16
        )
        flow.output("counts", totals)
        flow.output("latest", words.stateful_aggregate({"count": agg.count()}, key="word", bins=16))

    with JobOnSpark(spark, job, workers=2) as counting:
        done(counting.feed(lines(spark, folder, 1), checkpoint=str(folder / "feeding"), availableNow=True))
        first = written(counting, folder).collect()
        feed = counting.feed(lines(spark, folder, 6), checkpoint=str(folder / "feeding"), availableNow=True)
        assert counting.scale(3).bins_moved > 0
        assert counting.move([0, 1, 2], to=2).bins_moved > 0
        assert counting.scale(2).bins_moved > 0
        done(feed)
        rows = written(counting, folder).collect()
        assert set(first) < set(rows)
        check_counts(spark, folder, rows)
        latest = counting.read("latest", stream=False).groupBy("word").agg(F.max("count"))
        assert dict(map(tuple, latest.collect())) == expected(spark, folder)


WIDE = (
    "s string, b boolean, l long, d double, day date, at timestamp, local timestamp_ntz, x binary, n decimal(20,3), "
    + ("tags array<string>, scores map<string, double>, place struct<x: int, y: struct<z: string>>")
)
ALONE = ["b", "day", "at"]
KEYS = ["s", "b", "l", "d", "day", "at", "local", "x"]


@pytest.fixture(scope="module")
def wide(spark: SparkSession) -> DataFrame:
    """Rows with values of all kinds, some of them twice, and one with none at all."""
    tea = (
        "tea",
        True,
        2**40,
        1e300,
        date(2026, 1, 2),
        datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
        datetime(2026, 1, 2, 3, 4, 5, 6),
        b"\x00\xff",
        Decimal("12345.678"),
        ["a", None],
        {"k": 1.5},
        Row(x=1, y=Row(z="deep")),
    )
    milk = ("milk", False, -1, -0.5, date(1969, 12, 31), *tea[5:])
    return spark.createDataFrame([tea, milk, tea, (None,) * len(tea), tea], WIDE).repartition(3)


def test_columns_of_all_types_are_keys_or_are_carried_along(spark: SparkSession, folder: Path, wide: DataFrame):
    schema, job = spoken_schema(wide.schema), Job("types")

    @job.dataflow
    def types(flow: Flow) -> None:
        rows = flow.input_columns("rows", schema)
        flow.output("same", rows.exchange_by(KEYS).filter(lambda batch: pa.array([True] * len(batch), pa.bool_())))
        flow.output("counts", rows.stateful_aggregate({"count": agg.count()}, key=KEYS))
        for key in ALONE:
            flow.output(f"by {key}", rows.stateful_aggregate({"count": agg.count()}, key=key))

    with JobOnSpark(spark, job, workers=2) as running:
        same = wide.transform(running, output="same")
        assert [field.dataType for field in same.schema] == [field.dataType for field in wide.schema]
        assert sorted(same.collect(), key=str) == sorted(wide.collect(), key=str)
        for output, keys in [("counts", KEYS), *((f"by {key}", [key]) for key in ALONE)]:
            found = running.read(output, stream=False)
            assert sorted(found.collect(), key=str) == sorted(wide.groupBy(*keys).count().collect(), key=str)


def test_a_column_that_cannot_be_a_key_is_named(spark: SparkSession, folder: Path, wide: DataFrame):
    schema, job = spoken_schema(wide.schema), Job("types")

    @job.dataflow
    def types(flow: Flow) -> None:
        flow.output("counts", flow.input_columns("rows", schema).stateful_aggregate({"n": agg.count()}, key="n"))

    running = JobOnSpark(spark, job, workers=1)
    running.start()
    with pytest.raises(ProcessesFailed, match=r"column 'n' is decimal128\(20, 3\) and cannot be a key; let it be a "):
        running.wait()


def test_a_value_that_is_null_ends_the_job_and_is_named_with_its_record(spark: SparkSession, folder: Path):
    job = Job("sums")

    @job.dataflow
    def sums(flow: Flow) -> None:
        def add(what: str, cents: int, total: int) -> tuple[int, list[tuple[str, int]]]:
            return total + cents, [(what, total + cents)]

        sales = flow.input_columns("sales", {"what": str, "cents": int})
        sums = sales.stateful_state_machine(
            add, key="what", value="cents", state={"sum": int}, initial=0, output={"what": str, "sum": int}
        )
        flow.output("sums", sums)

    frame = spark.createDataFrame([("tea", 3), ("milk", None)], "what string, cents long")
    running = JobOnSpark(spark, job, workers=1)
    with pytest.raises((PySparkException, Py4JJavaError)) as told, running:
        frame.transform(running).collect()
    [report] = told.value.__notes__
    assert report.startswith("job failed: operator 'stateful_state_machine' (")
    assert "column 'cents' is null in {'what': 'milk', 'cents': None}, and compiled code works on numbers" in report
