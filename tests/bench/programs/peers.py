"""Counts the words of text files, one of several ways, with two cores; prints how long that took.

    python tests/bench/programs/peers.py SYSTEM FOLDER
    python tests/bench/programs/peers.py -n2 hailer FOLDER

Streaming systems put out a count per word and batch; batch systems, once, a count per word. What is counted is the time
from the first file opened to the last count, in a process that has started and has counted another folder before.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

LINES_PER_EPOCH = 25_000
CORES = 2
ROUND = 1_000_000


def main(system: str, folder: Path) -> None:
    count = SYSTEMS[system]
    count(folder / "warm")
    began_s = time.monotonic()
    words = count(folder / "timed")
    print(json.dumps({"seconds": time.monotonic() - began_s, "words": words}), flush=True)


def by_polars(files: Path) -> int:
    """A batch, read and grouped by Polars' own engine, in parallel."""
    import polars as pl

    lines = pl.scan_csv(str(files / "*.txt"), has_header=False, new_columns=["line"], separator="\n", quote_char=None)
    words = lines.select(pl.col("line").str.split(" ").alias("word")).explode("word")
    return int(words.group_by("word").len().collect()["len"].sum())


def by_duckdb(files: Path) -> int:
    """A batch, read and grouped by DuckDB, in parallel."""
    import duckdb

    with duckdb.connect() as database:
        database.execute(f"SET threads = {CORES}")
        columns = "columns={'line': 'VARCHAR'}, header=false, delim='\x01', quote='', escape=''"
        text = f"read_csv('{files}/*.txt', {columns})"
        words = f"SELECT unnest(string_split(line, ' ')) AS word FROM {text}"
        counts = f"SELECT word, count(*) AS n FROM ({words}) GROUP BY word"
        [(total,)] = database.execute(f"SELECT sum(n) FROM ({counts})").fetchall()
    return int(total)


def by_bytewax(files: Path) -> int:
    """A stream of rows, two workers in one process; each count of each word comes out."""
    import bytewax.operators as op
    from bytewax.connectors.files import FileSource
    from bytewax.dataflow import Dataflow
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.testing import cluster_main

    seen = [0]

    class Counted(StatelessSinkPartition[tuple[str, int]]):
        def write_batch(self, items: list[tuple[str, int]]) -> None:
            seen[0] += len(items)

    class Counter(DynamicSink[tuple[str, int]]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Counted:
            return Counted()

    flow = Dataflow("words")
    streams = [op.input(f"lines {n}", flow, FileSource(file)) for n, file in enumerate(sorted(files.iterdir()))]
    lines = op.merge("lines", *streams)
    words = op.key_on("key", op.flat_map("words", lines, str.split), str)
    counts = op.stateful_map("count", words, lambda total, word: ((total or 0) + 1, (total or 0) + 1))
    op.output("out", counts, Counter())
    cluster_main(flow, [], 0, worker_count_per_proc=CORES)
    return seen[0]


SYSTEMS: dict[str, Callable[[Path], int]] = {"polars": by_polars, "duckdb": by_duckdb, "bytewax": by_bytewax}


def run_hailer() -> None:
    """A stream of columns, two processes; each reads its share of the files, and words meet by their bins."""
    from operators import Probe, Worker, execute_from_args
    from operators.columns import ColumnInput, split_words
    from operators.columns import aggregates as agg
    from operators.columns.text import line_batches

    def program(worker: Worker) -> None:
        _, folder = worker.args
        lines, probe = ColumnInput({"line": str}, "lines"), Probe()
        last: dict[str, int] = {}

        def keep(batch: Any) -> None:
            last.update(zip(*(column.to_pylist() for column in batch.columns), strict=True))

        with worker.dataflow("words") as scope:
            (
                lines.stream(scope)
                .flat_map(split_words("line"))
                .stateful_aggregate({"count": agg.count()}, key="word")
                .inspect(keep)
                .probe(probe)
            )
        epoch = 0
        for name in ("warm", "timed"):
            began_s, before = time.monotonic(), sum(last.values())
            files = sorted((Path(folder) / name).iterdir())[worker.index :: worker.peers]
            for file in files:
                for batch in line_batches(file, lines.schema, lines_max=LINES_PER_EPOCH, where="lines"):
                    lines.send(batch)
                    epoch += 1
                    lines.advance_to(epoch)
                    worker.step_while(partial(probe.less_than, epoch - 4))
            epoch = ROUND * (1 + epoch // ROUND)  # the same for all workers, however many lines they had
            lines.advance_to(epoch)
            worker.step_while(partial(probe.less_than, epoch))
            taken_s = time.monotonic() - began_s
        sys.stdout.write(json.dumps({"seconds": taken_s, "words": sum(last.values()) - before}) + "\n")

    execute_from_args(program)


if __name__ == "__main__":
    if sys.argv[1].startswith("-"):
        run_hailer()
    else:
        main(sys.argv[1], Path(sys.argv[2]))
