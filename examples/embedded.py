"""A stateful job within a PySpark script: it takes a stream and gives a stream, and is scaled between the two.

    python examples/embedded.py

Sensors report temperatures as lines of text, and some lines are damaged. Spark makes the lines; the job keeps, for each
sensor, how many readings there were and the highest, and sends lines that it cannot read to an output of their own,
the dead letters. Its two processes run on Spark's executors, and a third joins while readings flow. In the end Spark
makes the same lines once more, as a batch, and compares.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from hailer import Flow, Job, JobOnSpark, SparkOptions, open_session

SPARK = SparkOptions("local[6]", (("spark.sql.shuffle.partitions", "2"),))
"""Six slots: three for the processes of the job, the others for Spark's own tasks."""

job = Job("highest")


def parse(line: str) -> tuple[str, int]:
    sensor, celsius = line.split(",")
    return sensor, int(celsius)


def highest(sensor: str, celsius: int, seen: tuple[int, int]) -> tuple[tuple[int, int], list[tuple[str, int, int]]]:
    """From a reading and the state of its sensor to the new state, and what goes out."""
    readings, most = seen
    seen = readings + 1, max(most, celsius)
    return seen, [(sensor, *seen)]


@job.dataflow
def build(flow: Flow) -> None:
    readings, rejected = flow.input("lines").attempt(parse)
    seen = readings.stateful_state_machine(highest, initial=(0, -273))
    flow.output("highest", seen, {"sensor": str, "readings": int, "celsius": int})
    flow.output("rejected", rejected, {"line": str, "reason": str})


def lines(numbers: DataFrame) -> DataFrame:
    """A line for each number: one of 40 sensors, and its temperature, which is missing now and then."""
    sensor, celsius = F.expr("value % 40"), F.expr("(value * 7919) % 61 - 20")
    text = F.when(F.expr("value % 23 = 0"), "?").otherwise(celsius.cast("string"))
    return numbers.select(F.concat(F.lit("sensor-"), sensor, F.lit(","), text).alias("line"))


def main() -> int:
    with open_session("embedded", SPARK) as spark:
        measuring = JobOnSpark(spark, job, workers=2)
        try:
            numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 500).load()
            results = lines(numbers).transform(measuring, output="highest", processingTime="1 second")
            writing = results.writeStream.format("memory").queryName("highest").start()
            await_batches(writing, 3)
            outcome = measuring.scale(3)
            print(f"processes     {len(measuring.processes)}, and {outcome.bins_moved} bins have moved to the third")
            await_batches(writing, 3)

            measuring.finish()
            writing.processAllAvailable()
            writing.stop()
            rejected = measuring.read("rejected").writeStream.format("memory").queryName("rejected")
            rejected.trigger(availableNow=True).start().awaitTermination()
        finally:
            measuring.stop()
        return compare(spark)


def await_batches(query: StreamingQuery, batches: int) -> None:
    """Wait until a query has written some batches more."""
    goal = written(query) + batches
    while written(query) < goal:
        query.awaitTermination(1)  # raises what the query fails with


def written(query: StreamingQuery) -> int:
    return -1 if query.lastProgress is None else int(query.lastProgress["batchId"])


def compare(spark: SparkSession) -> int:
    """Have Spark compute the same from as many lines."""
    found = spark.table("highest").groupBy("sensor").agg(F.max("readings").alias("readings"), F.max("celsius"))
    rejected = spark.table("rejected")
    total = spark.table("highest").count() + rejected.count()
    again = lines(spark.range(total).withColumnRenamed("id", "value"))
    parts = again.selectExpr("line", "split(line, ',') as part")
    damaged = parts.where("part[1] = '?'").select("line")
    readings = parts.where("part[1] != '?'").selectExpr("part[0] as sensor", "cast(part[1] as long) as celsius")
    expected = readings.groupBy("sensor").agg(F.count("*"), F.max("celsius"))
    differences = [
        one.exceptAll(other).count()
        for ours, sparks in ((found, expected), (rejected.select("line"), damaged))
        for one, other in ((ours, sparks), (sparks, ours))
    ]
    print(f"dead letters  {rejected.first()}")
    print(f"differences   {sum(differences)}   (against Spark's own groupBy and max)")
    return 1 if any(differences) else 0


if __name__ == "__main__":
    sys.exit(main())
