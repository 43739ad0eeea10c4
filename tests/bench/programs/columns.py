"""Words counted on columns, each worker with its share of the batches; prints how long each worker took.

python tests/bench/programs/columns.py (-w1 | -w2 | -n2) KEYS BATCHES
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial

from operators import Probe, Worker, execute_from_args
from operators.columns import ColumnInput
from tests.bench.words import word_batches

AHEAD = 4
"""So many epochs are under way."""


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(word, total + n)]


def main(worker: Worker) -> None:
    keys, batches = map(int, worker.args)
    words, probe = ColumnInput({"word": str}, "words"), Probe()
    with worker.dataflow("columns") as scope:
        (
            words.stream(scope)
            .stateful_state_machine(
                count, key="word", state={"total": int}, initial=0, output={"word": str, "total": int}
            )
            .probe(probe)
        )
    mine = word_batches(keys, batches // worker.peers, seed=worker.index)
    words.send(mine[0])
    words.advance_to(1)
    worker.step_while(partial(probe.less_than, 1))
    began_s = time.monotonic()
    for epoch, batch in enumerate(mine, start=1):
        words.send(batch)
        words.advance_to(epoch + 1)
        worker.step_while(partial(probe.less_than, epoch + 1 - AHEAD))
    worker.step_while(partial(probe.less_than, len(mine) + 1))
    sys.stdout.write(json.dumps({"seconds": time.monotonic() - began_s}) + "\n")


if __name__ == "__main__":
    execute_from_args(main)
