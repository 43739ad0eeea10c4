"""Words counted on columns, each worker with its share of the batches; prints how long each worker took.

python tests/bench/programs/columns.py (-w1 | -w2 | -n2) (fold | aggregate) KEYS BATCHES ROUNDS

With a fold each word gives its count; with an aggregate, each epoch gives the counts of its words. All batches are
sent once in a round.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial

from operators import Probe, Worker, execute_from_args
from operators.columns import ColumnInput, Columns
from operators.columns import aggregates as agg
from tests.bench.words import word_batches

AHEAD = 4
"""So many epochs are under way."""

WORDS = 2**19
"""In a batch: several milliseconds of work, beside which what a batch costs in Python, whatever its size, is little."""


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(word, total + n)]


def main(worker: Worker) -> None:
    how, keys, batches, rounds = worker.args[0], *map(int, worker.args[1:])
    words, probe = ColumnInput({"word": str}, "words"), Probe()
    with worker.dataflow("columns") as scope:
        _counted(words.stream(scope), how).probe(probe)
    mine = word_batches(keys, batches // worker.peers, seed=worker.index, words=WORDS)
    words.send(mine[0])
    words.advance_to(1)
    worker.step_while(partial(probe.less_than, 1))
    began_s = time.monotonic()
    for epoch, batch in enumerate(mine * rounds, start=1):
        words.send(batch)
        words.advance_to(epoch + 1)
        worker.step_while(partial(probe.less_than, epoch + 1 - AHEAD))
    worker.step_while(partial(probe.less_than, rounds * len(mine) + 1))
    sys.stdout.write(json.dumps({"seconds": time.monotonic() - began_s}) + "\n")


def _counted(words: Columns, how: str) -> Columns:
    if how == "aggregate":
        return words.stateful_aggregate({"count": agg.count()}, key="word")
    assert how == "fold", how
    output = {"word": str, "total": int}
    return words.stateful_state_machine(count, key="word", state={"total": int}, initial=0, output=output)


if __name__ == "__main__":
    execute_from_args(main)
