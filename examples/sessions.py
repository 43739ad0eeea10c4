"""Finds the sessions of users in a stream of clicks: from the first click to a pause of 30 minutes.

    python examples/sessions.py
    python examples/sessions.py --hours 48

Spark feeds the clicks of an hour as one batch, which is one epoch of the job; some clicks come up to ten minutes after
their hour. The job's clock says how far time has come after each epoch, as `withWatermark("at", "10 minutes")` does. A
session goes out once, when the clock has passed its end. In the end Spark's own `session_window`, over all clicks at
once, must find the same.

The clock counts epochs, and while processes come and go some pass without clicks: it then runs ahead, and what it makes
late goes to the output `late`. Give it a longer delay if such a job is to be scaled.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hailer import EpochClock, Flow, Job, JobOnSpark, SparkOptions, WindowResult, counting, open_session

SPARK = SparkOptions("local[6]", (("spark.sql.shuffle.partitions", "2"), ("spark.sql.session.timeZone", "UTC")))
MINUTE_S, HOUR_S = 60, 3600
GAP_S = 30 * MINUTE_S + 1
"""For Spark, clicks that are exactly 30 minutes apart are of one session; here a session ends once the gap is over."""
FIRST = datetime(2026, 3, 1, tzinfo=UTC)

job = Job("sessions")


def second(click: tuple[str, datetime, str]) -> int:
    return int((click[1] - FIRST).total_seconds())


def row(result: WindowResult[str, int]) -> tuple[str, datetime, datetime, int]:
    start, end = result.window.start, result.window.end - 1
    return result.key, FIRST + timedelta(seconds=start), FIRST + timedelta(seconds=end), result.value


@job.dataflow
def build(flow: Flow) -> None:
    sessions, late = flow.input("clicks", {"user": str, "at": datetime, "page": str}).session_window(
        counting(),
        gap=GAP_S,
        key=itemgetter(0),
        event_time=second,
        clock=EpochClock(HOUR_S, delay=10 * MINUTE_S),
    )
    flow.output("sessions", sessions.map(row), {"user": str, "start": datetime, "end": datetime, "clicks": int})
    flow.output("late", late.map(lambda missed: missed.record), {"user": str, "at": datetime, "page": str})


def main() -> int:
    flags = read_flags()
    arriving, found = write_clicks(flags.hours, flags.output / "clicks"), flags.output / "sessions"
    with open_session("sessions", SPARK) as spark, JobOnSpark(spark, job, workers=2) as finding:
        columns = "user string, at timestamp, page string"
        clicks = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(str(arriving))
        feeding = finding.feed(clicks, availableNow=True)
        assert feeding is not None
        feeding.awaitTermination()
        finding.finish()  # there are no more clicks, so the sessions that are open end as well
        writer = finding.read("sessions").writeStream.format("parquet").option("path", str(found))
        writer = writer.option("checkpointLocation", str(flags.output / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        late = finding.read("late", stream=False).count()
        return compare(spark, arriving, found, late)


def compare(spark: SparkSession, arriving: Path, found: Path, late: int) -> int:
    """Let Spark find the sessions of the same clicks."""
    clicks = spark.read.schema("user string, at timestamp").json(str(arriving))
    sessions = spark.read.parquet(str(found))
    windows = clicks.groupBy("user", F.session_window("at", "30 minutes").alias("session")).count()
    expected = windows.select("user", "session.start", "session.end", "count")
    differences = sessions.exceptAll(expected).count() + expected.exceptAll(sessions).count()
    print(f"clicks       {clicks.count():>8,}   ({late:,} came too late)")
    print(f"sessions     {sessions.count():>8,}")
    print(f"differences  {differences:>8,}   (against Spark's session_window)")
    sessions.orderBy(F.desc("clicks"), "user", "start").show(3, truncate=False)
    return 1 if differences else 0


def write_clicks(hours: int, folder: Path) -> Path:
    """A file of clicks for each hour; some are of the last minutes of the hour before."""
    folder.mkdir(parents=True)
    random = Random(7)
    for hour in range(hours):
        clicks: list[dict[str, Any]] = []
        for _ in range(150):
            at = FIRST + timedelta(hours=hour, minutes=random.randrange(-10 if hour else 0, 60))
            page = random.choice(("/", "/search", "/basket"))
            clicks.append({"user": f"user-{random.randrange(60)}", "at": at.isoformat(), "page": page})
        file = folder / f"hour-{hour:03}.json"
        file.write_text("".join(json.dumps(click) + "\n" for click in clicks))
        os.utime(file, (hour, hour))  # Spark takes the oldest first
    return folder


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Find the sessions of users in a stream of clicks.")
    parser.add_argument("--hours", type=int, default=12, metavar="N", help="how many hours of clicks (12)")
    parser.add_argument("--output", type=Path, default=Path("build", "sessions"), metavar="DIR", help="replaced")
    flags = parser.parse_args()
    if flags.hours < 1:
        parser.error("--hours is at least 1")
    shutil.rmtree(flags.output, ignore_errors=True)
    return flags


if __name__ == "__main__":
    sys.exit(main())
