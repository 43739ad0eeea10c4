"""WordCount on rows or columns that tells how many counts came out where and when; run by `rescale_load.py`.

The environment variable `RESCALE_JOB` says, as JSON, whether it is on `columns`, and how long its worker waits per
record (`wait_us`) once there is a file `loaded`: work that more processes carry on any number of cores. Its output has
a row for each container of counts: the worker, when, how many, and their sum. At the end the first worker writes to
`felt.json` when epochs were complete, when workers had joined, and since when who owned how many bins.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from operators import Flow, Job, Probe, Stream
from operators.columns import split_words
from routing.registry import operators_on

LOADED = Path("loaded")

job = Job("rescaled")


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


@job.dataflow
def wordcount(flow: Flow) -> None:
    settings = json.loads(os.environ["RESCALE_JOB"])
    if settings["columns"]:
        words = flow.input_columns("lines", {"line": str}).flat_map(split_words("line"))
        columns = words.stateful_state_machine(
            count, key="word", state={"total": int}, initial=0, output={"word": str, "total": int}
        )
        counts: Stream[Any] = Stream(columns.outlet)
    else:
        pairs = flow.input("lines").flat_map(str.split).map(lambda word: (word, 1))
        counts = pairs.stateful_state_machine(count, initial=0)
    probe = Probe()
    tallies = counts.flat_map_batch(partial(tally, flow.worker.index, settings["wait_us"]))
    flow.output("tallies", tallies.probe(probe))
    if flow.commanding:
        Felt(flow, probe)


def tally(worker: int, wait_us: float, counts: Any) -> list[tuple[int, float, int, int]]:
    """What came out, in brief; after a wait for each record."""
    if wait_us and LOADED.exists():
        time.sleep(len(counts) * wait_us / 1e6)
    if isinstance(counts, pa.RecordBatch):
        total = int(counts["total"].to_numpy().sum())
    else:
        total = sum([each for _, each in counts])
    return [(worker, time.monotonic(), len(counts), total)]


class Felt:
    """Writes down how far the outputs are, and whose the bins are at the last epoch that is complete."""

    def __init__(self, flow: Flow, probe: Probe) -> None:
        self._worker = flow.worker
        self._probe = probe
        self._epoch = 0
        self._owners: Sequence[int] = ()
        self._completions: list[float] = []
        self._shares: list[tuple[float, dict[int, int]]] = []
        self._joined: list[tuple[float, int]] = []
        self._worker.membership.on_joined.append(lambda worker: self._joined.append((time.monotonic(), worker)))
        self._worker.on_finish(self._write)
        probe.when_moved(self._note)

    def _note(self) -> None:
        self._probe.when_moved(self._note)
        now_s, [epoch] = time.monotonic(), self._probe.frontier() or (0,)
        if not isinstance(epoch, int) or epoch <= self._epoch:
            return
        self._epoch = epoch
        self._completions.append(now_s)
        for operator in operators_on(self._worker):
            # A table that was installed for the epoch at the frontier says nothing of the one before.
            if operator.table.since < self._epoch:
                owners = operator.table.owners_at(self._epoch - 1)
                if owners != self._owners:
                    self._owners = list(owners)
                    self._shares.append((now_s, dict(Counter(owners))))

    def _write(self) -> None:
        felt = {"completions": self._completions, "shares": self._shares, "joined": self._joined}
        Path("felt.json").write_text(json.dumps(felt), encoding="utf-8")
