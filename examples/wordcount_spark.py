"""Counts the words of a text that Spark reads, scales the job while it counts, and has Spark check every count.

    python examples/wordcount_spark.py                    # 20 readings of Alice in Wonderland
    python examples/wordcount_spark.py --readings 5 book.txt

Spark streams the lines into the job of `wordcount_job.py`, which runs on Spark's executors, two processes at first. A
third joins, bins move, the third leaves; meanwhile another query writes each new count to Parquet. In the end Spark
counts the same words with its own `groupBy().count()`, and every count that was written must be there once.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from hailer import Job, JobOnSpark, Outcome, SparkOptions, open_session
from operators.errors import SparkUnusable

HERE = Path(__file__).parent
ALICE = HERE / "data" / "alice.txt"
SLOTS = 6
"""Of Spark: three for the processes of the job, the others for its own tasks."""


def main() -> int:
    flags = read_flags()
    folder: Path = flags.output
    shutil.rmtree(folder, ignore_errors=True)
    files = write_readings(flags.text, flags.readings, folder / "lines")
    progress = Progress(flags.readings)
    progress.say("starting Spark")
    options = SparkOptions(f"local[{SLOTS}]", (("spark.sql.shuffle.partitions", "2"),))
    try:
        with progress.shown(), open_session("wordcount", options) as spark:
            progress.say("starting two processes")
            with JobOnSpark(spark, Job.load(HERE / "wordcount_job.py"), workers=2) as counting:
                began_s = time.monotonic()
                outcomes = stream(spark, counting, files, folder, progress)
                streamed_s = time.monotonic() - began_s
            progress.say("Spark counts the same words")
            summary = check(spark, files, folder / "counts")
    except SparkUnusable as error:
        sys.exit(f"{Path(__file__).name}: {error}")
    show(flags, summary, outcomes, streamed_s, folder / "counts")
    return 1 if summary.differences else 0


def stream(spark: SparkSession, counting: JobOnSpark, files: Path, folder: Path, progress: Progress) -> list[Outcome]:
    """Count all files, an epoch each, while processes and bins come and go; what came of the latter."""
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(files))
    feed = counting.feed(lines, availableNow=True)
    assert feed is not None
    writing = write_counts(counting, folder)
    progress.watch(feed)
    changes: list[tuple[str, Callable[[], Outcome]]] = [
        ("a third process joins", lambda: counting.scale(3)),
        ("bins move to worker 1", lambda: counting.move(range(0, 64, 2), to=1)),
        ("the third process leaves", lambda: counting.scale(2)),
    ]
    outcomes = []
    for number, (what, change) in enumerate(changes, start=1):
        progress.await_share(number / (len(changes) + 1))
        progress.say(what)
        outcomes.append(change())
        progress.say("")
    feed.awaitTermination()
    writing.stop()
    progress.say("the last counts are written")
    write_counts(counting, folder, availableNow=True).awaitTermination()
    return outcomes


def write_counts(counting: JobOnSpark, folder: Path, **trigger: bool) -> StreamingQuery:
    """Write counts to Parquet, from where the last query of the same checkpoint has come to."""
    writer = counting.read("counts").writeStream.format("parquet").option("path", str(folder / "counts"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(**trigger) if trigger else writer).start()


@dataclass(frozen=True)
class Summary:
    """What Spark has found."""

    words: int
    distinct: int
    differences: int


def check(spark: SparkSession, files: Path, counts: Path) -> Summary:
    """Compare with Spark's own count: of a word that is there n times, the counts 1 to n were written, each once."""
    words = spark.read.text(str(files)).select(F.explode(F.split("value", r"\s+")).alias("word")).where("word != ''")
    expected = words.groupBy("word").agg(F.count("*").alias("expected"))
    written = spark.read.parquet(str(counts)).groupBy("word")
    found = written.agg(
        F.max("count").alias("last"), F.count("*").alias("rows"), F.countDistinct("count").alias("each")
    )
    compared: DataFrame = expected.join(found, "word", "full").fillna(0).cache()
    wrong = compared.where("last != expected or rows != expected or each != expected").count()
    [total] = compared.agg(F.sum("expected"), F.count("*")).collect()
    return Summary(total[0], total[1], wrong)


def show(flags: argparse.Namespace, summary: Summary, outcomes: list[Outcome], streamed_s: float, counts: Path) -> None:
    rows = [
        ("text", f"{flags.text.name}, {flags.readings} times"),
        ("processes", "2, 3, 2"),
        ("epochs", f"{flags.readings}"),
        ("words", f"{summary.words:,}"),
        ("distinct words", f"{summary.distinct:,}"),
        ("bins moved", f"{sum(outcome.bins_moved for outcome in outcomes)}"),
        ("longest stall", f"{1000 * max(outcome.stall_s_max for outcome in outcomes):.0f} ms"),
        ("streamed in", f"{streamed_s:.1f} s"),
        ("differences", f"{summary.differences}   (against Spark's groupBy().count())"),
        ("counts", f"{counts}"),
    ]
    for name, value in rows:
        print(f"{name:<16}{value}")


@dataclass
class Progress:
    """Says on standard error what goes on, and waits for shares of the text to be fed."""

    readings: int
    _feed: StreamingQuery | None = None
    _what: str = ""
    _shown: str = ""
    _ended: Event = field(default_factory=Event)

    def say(self, what: str) -> None:
        self._what = what

    def watch(self, feed: StreamingQuery) -> None:
        self._feed = feed
        self._what = ""

    def await_share(self, share: float) -> None:
        """Wait until this share of the text is fed, or the feed has ended."""
        while self._feed is not None and self._feed.isActive and self._fed() < share * self.readings:
            time.sleep(0.05)

    def _fed(self) -> int:
        progress = self._feed.lastProgress if self._feed is not None else None
        return 0 if progress is None else int(progress["batchId"]) + 1

    @contextmanager
    def shown(self) -> Iterator[None]:
        self._show()
        thread = Thread(target=self._keep_showing, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _keep_showing(self) -> None:
        while not self._ended.wait(0.2):
            self._show()
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _show(self) -> None:
        """Renew a line on a terminal; elsewhere, print one when something has changed."""
        fed = f"{self._fed()} of {self.readings} readings" if self._feed is not None else ""
        line = "   ".join(part for part in (fed, self._what) if part)
        if line != self._shown:
            self._shown = line
            print(f"\r\x1b[K{line}" if sys.stderr.isatty() else f"{line}\n", end="", file=sys.stderr, flush=True)


def write_readings(text: Path, readings: int, folder: Path) -> Path:
    """A folder with a copy of the text for each of `readings`, as Spark's streams take them."""
    folder.mkdir(parents=True)
    for number in range(readings):
        shutil.copy(text, folder / f"reading-{number:03}.txt")
    return folder


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Count the words of a text on Spark, and scale meanwhile.")
    parser.add_argument("text", nargs="?", type=Path, default=ALICE, help="a text file (Alice in Wonderland)")
    parser.add_argument("--readings", type=int, default=20, metavar="N", help="how often it is read (20)")
    parser.add_argument("--output", type=Path, default=Path("build", "wordcount"), metavar="DIR", help="replaced")
    flags = parser.parse_args()
    if not flags.text.is_file():
        parser.error(f"there is no file {flags.text}")
    if flags.readings < 1:
        parser.error("a text is read once at least")
    return flags


if __name__ == "__main__":
    sys.exit(main())
