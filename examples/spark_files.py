"""Adds up revenue per product over a directory in which files of orders keep arriving.

    python examples/spark_files.py                  # lets some files arrive by itself, and checks the sums
    python examples/spark_files.py --watch orders   # a directory of yours, until Ctrl-C

Spark watches the directory, as `spark.readStream.csv` does, and feeds each batch of new files to the job. The job keeps
the revenue of each product, and sends on what it has become; a second query prints that. A file has lines such as
`tea,2,3.50`: product, quantity, price. Let a file appear in one go: write it elsewhere, then move it in.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from hailer import Flow, Job, JobOnSpark, SparkOptions, open_session

SPARK = SparkOptions("local[6]", (("spark.sql.shuffle.partitions", "2"),))
COLUMNS = "product string, quantity long, price decimal(10,2)"
MONEY = pa.decimal128(20, 2)

job = Job("revenue")


def add(product: str, amount: Decimal, revenue: Decimal) -> tuple[Decimal, list[tuple[str, Decimal]]]:
    revenue += amount
    return revenue, [(product, revenue)]


@job.dataflow
def build(flow: Flow) -> None:
    orders = flow.input("orders", {"product": str, "quantity": int, "price": pa.decimal128(10, 2)})
    amounts = orders.map(lambda order: (order[0], order[1] * order[2]))
    revenues = amounts.stateful_state_machine(add, initial=Decimal(0))
    flow.output("revenue", revenues, {"product": str, "revenue": MONEY})


def main() -> int:
    flags = read_flags()
    with open_session("orders", SPARK) as spark, JobOnSpark(spark, job, workers=2) as adding:
        orders = spark.readStream.schema(COLUMNS).csv(str(flags.watch or flags.output))
        feeding = adding.feed(orders)
        assert feeding is not None
        latest: dict[str, Decimal] = {}
        printing = adding.read().writeStream.foreachBatch(lambda batch, _: show(batch, latest)).start()
        if flags.watch is not None:
            return watch(feeding)
        for number in range(flags.files):
            drop(flags.output, number)
            feeding.processAllAvailable()
        adding.finish()
        printing.processAllAvailable()
        printing.stop()
        return check(spark, flags.output, latest)


def show(batch: DataFrame, latest: dict[str, Decimal]) -> None:
    """Print what the products of a batch have come to: the last of their sums, which only grow."""
    for product, revenue in sorted(batch.groupBy("product").agg(F.max("revenue")).collect()):
        latest[product] = revenue
        print(f"{product:<12}{revenue:>12,}", flush=True)


def watch(feeding: StreamingQuery) -> int:
    try:
        feeding.awaitTermination()
    except KeyboardInterrupt:
        pass
    return 0


def drop(folder: Path, number: int) -> None:
    """Let a file of orders arrive."""
    random = Random(number)
    products = {"coffee": "4.20", "milk": "1.15", "sugar": "0.99", "tea": "3.50"}
    rows = random.choices(sorted(products.items()), k=200)
    hidden = folder / f".{number}"  # Spark passes over names that begin with a dot
    hidden.write_text("".join(f"{product},{random.randrange(1, 5)},{price}\n" for product, price in rows))
    hidden.rename(folder / f"orders-{number:03}.csv")


def check(spark: SparkSession, folder: Path, latest: dict[str, Decimal]) -> int:
    """Compare with what Spark adds up from all files at once."""
    orders = spark.read.schema(COLUMNS).csv(str(folder))
    sums = orders.groupBy("product").agg(F.sum(F.expr("quantity * price"))).collect()
    differences = len(dict(map(tuple, sums)).items() ^ latest.items())
    print(f"differences {differences:>12}   (against Spark's own sum over {orders.count():,} orders)")
    return 1 if differences else 0


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Add up revenue over files that arrive while it runs.")
    parser.add_argument("--watch", type=Path, metavar="DIR", help="a directory that files of yours arrive in")
    parser.add_argument("--files", type=int, default=5, metavar="N", help="else, how many files arrive (5)")
    parser.add_argument("--output", type=Path, default=Path("build", "orders"), metavar="DIR", help="where; replaced")
    flags = parser.parse_args()
    if flags.watch is None:
        shutil.rmtree(flags.output, ignore_errors=True)
        flags.output.mkdir(parents=True)
    elif not flags.watch.is_dir():
        parser.error(f"there is no directory {flags.watch}")
    return flags


if __name__ == "__main__":
    sys.exit(main())
