"""WordCount on rows as a job, from a file to files; prints each epoch's milliseconds from being fed to being complete.

python tests/bench/programs/epoch_latency.py -n2 LINES OUTPUT
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from operators import Flow, Job, Worker, execute_from_args
from operators.job.files import lines
from operators.job.json_lines import JsonLines
from operators.job.output_directory import OutputDirectory
from operators.job.part_writer import FileOutput
from operators.job.run_loop import feed_from, run_on_worker

EPOCH_LINES = 1000

job = Job("wordcount")


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


@job.dataflow
def wordcount(flow: Flow) -> None:
    words = flow.input("lines").flat_map(str.split).map(lambda word: (word, 1))
    flow.output("counts", words.stateful_state_machine(count, initial=0))


def main(worker: Worker) -> None:
    path, output = worker.args[-2:]
    fed_s, latencies_ms = list[float](), list[float]()

    def source() -> Iterator[list[str]]:
        for rows in lines(Path(path), lines_max=EPOCH_LINES):
            fed_s.append(time.perf_counter())
            yield rows

    def look() -> None:
        now_s = time.perf_counter()
        while len(latencies_ms) < len(fed_s) and not flow.probe.less_equal(len(latencies_ms)):
            latencies_ms.append(1000 * (now_s - fed_s[len(latencies_ms)]))
        flow.probe.when_moved(look)

    with ExitStack() as ends:
        directory = OutputDirectory("counts", Path(output), job.name)
        ends.callback(directory.release)
        flow = job.build(worker, lambda name: FileOutput(directory, JsonLines(name)))
        if flow.commanding:
            directory.claim()
        look()
        run_on_worker(flow, partial(feed_from, {"lines": source()} if flow.commanding else {}))
        worker.complete()
    if flow.commanding:
        print(json.dumps(latencies_ms))


if __name__ == "__main__":
    execute_from_args(main)
