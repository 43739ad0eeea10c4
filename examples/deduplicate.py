"""Lets each event through once, and forgets what it has seen after a while.

    python examples/deduplicate.py
    python examples/deduplicate.py --batches 40

A sender that cannot be sure that an event has arrived sends it again, a little later. The job remembers the ids that it
has seen for `KEEP` epochs: an epoch is what Spark feeds as one batch. A timer then has it forget an id, so that what it
keeps does not grow with the stream. In the end Spark's own `dropDuplicates`, over all events at once, must leave the
same.

While processes come and go, some epochs pass without a batch: remember for longer if such a job is to be scaled.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any

from hailer import DISCARD, Flow, Job, JobOnSpark, SparkOptions, Timers, open_session, process

SPARK = SparkOptions("local[6]", (("spark.sql.shuffle.partitions", "2"),))
EVENTS_PER_BATCH = 300
AGAIN = 3
"""The limit of the batches after which an event is sent again."""
KEEP = AGAIN

job = Job("deduplicate")


class Once:
    """The state of an id is whether it was seen."""

    def initial(self) -> bool:
        return False

    def on_record(self, port: int, event: Any, seen: bool, timers: Timers) -> tuple[bool, list[Any]]:
        if seen:
            return True, []
        timers.set(timers.time + KEEP)
        return True, [event]

    def on_timer(self, key: str, seen: bool, timers: Timers) -> tuple[Any, list[Any]]:
        return DISCARD, []


@job.dataflow
def build(flow: Flow) -> None:
    schema = {"id": str, "user": str, "cents": int}
    events = flow.input("events", schema)
    flow.output("unique", process([(events, itemgetter(0))], Once()), schema)


def main() -> int:
    flags = read_flags()
    arriving, unique = write_events(flags.batches, flags.output / "events"), flags.output / "unique"
    with open_session("deduplicate", SPARK) as spark, JobOnSpark(spark, job, workers=2) as deduplicating:
        columns = "id string, user string, cents long"
        events = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(str(arriving))
        feeding = deduplicating.feed(events, availableNow=True)
        assert feeding is not None
        feeding.awaitTermination()
        writer = deduplicating.read().writeStream.format("parquet").option("path", str(unique))
        writer = writer.option("checkpointLocation", str(flags.output / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        kept = sum(keys for operator in deduplicating.status()["bins"] for keys in operator["keys"].values())

        came, went = spark.read.schema(columns).json(str(arriving)), spark.read.parquet(str(unique))
        expected = came.dropDuplicates(["id"])
        differences = went.exceptAll(expected).count() + expected.exceptAll(went).count()
        print(f"events          {came.count():>8,}")
        print(f"unique          {went.count():>8,}")
        print(f"ids remembered  {kept:>8,}   (those of the last {KEEP} batches)")
        print(f"differences     {differences:>8,}   (against Spark's dropDuplicates)")
        return 1 if differences else 0


def write_events(batches: int, folder: Path) -> Path:
    """A file of events for each batch; a third of them comes again within the next few."""
    folder.mkdir(parents=True)
    random = Random(7)
    sent: list[list[dict[str, Any]]] = [[] for _ in range(batches)]
    for number in range(batches * EVENTS_PER_BATCH):
        first = number // EVENTS_PER_BATCH
        event = {"id": f"e{number}", "user": f"u{random.randrange(50)}", "cents": random.randrange(10_000)}
        for batch in {first, first + random.randrange(1, AGAIN + 1)} if random.random() < 1 / 3 else {first}:
            sent[min(batch, batches - 1)].append(event)
    for batch, events in enumerate(sent):
        file = folder / f"batch-{batch:03}.json"
        file.write_text("".join(json.dumps(event) + "\n" for event in events))
        os.utime(file, (batch, batch))  # Spark takes the oldest first
    return folder


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Let each event through once, and remember ids only for a while.")
    parser.add_argument("--batches", type=int, default=10, metavar="N", help="how many batches of events (10)")
    parser.add_argument("--output", type=Path, default=Path("build", "deduplicate"), metavar="DIR", help="replaced")
    flags = parser.parse_args()
    if flags.batches < 1:
        parser.error("--batches is at least 1")
    shutil.rmtree(flags.output, ignore_errors=True)
    return flags


if __name__ == "__main__":
    sys.exit(main())
