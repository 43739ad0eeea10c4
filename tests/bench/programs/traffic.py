"""WordCount on every worker; prints the bytes of data and of progress that its links carried, and batches sent."""

from __future__ import annotations

import json
import sys
from random import Random

from operators import Input, Probe, Worker, execute_from_args

EPOCHS, LINES, WORDS, VOCABULARY = 50, 20, 10, 1000


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(word, total + n)]


def main(worker: Worker) -> None:
    lines, probe = Input[str](), Probe()
    random = Random(worker.index)
    with worker.dataflow("wordcount") as scope:
        lines.stream(scope).flat_map(str.split).map(lambda word: (word, 1)).state_machine(count, initial=0).probe(probe)
    for epoch in range(EPOCHS):
        for _ in range(LINES):
            lines.send(" ".join(f"word{random.randrange(VOCABULARY)}" for _ in range(WORDS)))
        lines.advance_to(epoch + 1)
        worker.step_while(lambda: probe.less_than(lines.time))
    worker.complete()
    traffic = worker.traffic()
    batches = sum(worker.batches_sent().values()) * (worker.peers - 1)
    sys.stdout.write(json.dumps([traffic.data_bytes, traffic.progress_bytes, batches]) + "\n")


if __name__ == "__main__":
    execute_from_args(main)
