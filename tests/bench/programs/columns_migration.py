"""Counts by key on columns in two processes while a plan moves half of worker 0's bins; prints what was felt of it.

    python tests/bench/programs/columns_migration.py -n2 (none | optimized | all-at-once) BINS KEYS

Worker 0 sends an epoch when the one before is complete. With `none` as many epochs go by as with `optimized`, and no
bin moves. At the end all counts are read out: no count may be lost.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from framework.membership.members import WorkerId
from operators import ControlInput, Probe, Worker, execute_from_args
from operators.columns import ColumnInput
from routing.bins import Bins
from routing.migration import PlanRunner, Reassignment, all_at_once, optimized
from routing.registry import operators_on

RECORDS, STEADY_EPOCHS, LOAD_BATCH = 16_384, 200, 65_536
RECORDS_SCHEMA = {"key": int, "n": int}
PAGE = os.sysconf("SC_PAGE_SIZE")


def count(key: int, n: int, total: int) -> tuple[int, list[tuple[int, int]]]:
    return total + n, [(key, total + n)]


class Sums:
    """Of what came out at the epochs from `since` on: a number of keys, their counts, and these weighted by key."""

    def __init__(self, since: int) -> None:
        self.since = since
        self.sums = np.zeros(3, np.int64)

    def add(self, time: int, batch: pa.RecordBatch) -> None:
        """Take in what came out."""
        if time >= self.since:
            keys, totals = (batch[name].to_numpy() for name in ("key", "total"))
            self.sums += [len(keys), totals.sum(), (keys * totals).sum()]


def main(worker: Worker) -> None:
    plan_name, bins, keys = worker.args[0], int(worker.args[1]), int(worker.args[2])
    current = Bins(bins).initial_owners(worker.members.workers)
    # Of the bins of worker 0, which are every other one, half.
    target = [WorkerId(1) if index % 4 == 0 else owner for index, owner in enumerate(current)]
    moves = sum(one != other for one, other in zip(current, target, strict=True))
    loads = -(-keys // LOAD_BATCH)
    middle = 1 if plan_name == "all-at-once" else moves
    sums = Sums(since=loads + STEADY_EPOCHS + middle + STEADY_EPOCHS)
    records, control, probe = ColumnInput(RECORDS_SCHEMA), ControlInput(), Probe()
    with worker.dataflow("migration") as scope:
        (
            records.stream(scope)
            .stateful_state_machine(
                count,
                key="key",
                value="n",
                state={"total": int},
                initial=0,
                output={"key": int, "total": int},
                control=control.stream(scope).broadcast(),
                bins=bins,
            )
            .inspect_batch(sums.add)
            .probe(probe)
        )
    [operator] = operators_on(worker)
    memory = list[tuple[float, float]]()

    def sample(result: bool) -> bool:
        now_s = time.monotonic()
        if not memory or now_s - memory[-1][0] > 0.002:
            memory.append((now_s, rss_mb()))
        return result

    result: dict[str, Any] = {"worker": worker.index}
    if worker.index == 0:
        driver = Driver(worker, records, control, probe, keys, sample)
        driver.load(1)
        steady = [driver.epoch() for _ in range(STEADY_EPOCHS)]
        moved = sum(held for bin_id, held in operator.keys_per_bin().items() if target[bin_id] != current[bin_id])
        began_s = time.monotonic()
        if plan_name == "none":
            during = [driver.epoch() for _ in range(moves)]
        else:
            strategy = {"optimized": optimized, "all-at-once": all_at_once}[plan_name]
            during = driver.migrate(PlanRunner(strategy(Reassignment(current, target))))
        ended_s = time.monotonic()
        for _ in range(STEADY_EPOCHS):
            driver.epoch()
        assert len(during) == middle, during
        driver.load(0)
        result |= {
            "began_s": began_s,
            "ended_s": ended_s,
            "stall_ms": 1000 * max(during),
            "stall_step": during.index(max(during)),
            "steady_p50_ms": 1000 * sorted(steady)[len(steady) // 2],
            "steady_max_ms": 1000 * max(steady),
            "moved_keys": moved,
            "shipped_bytes": operator.shipped_bytes(),
            "expected": driver.expected(),
        }
    else:
        records.close()
        control.close()
        worker.step_while(lambda: sample(probe.less_than(sums.since + loads)))
    sys.stdout.write(json.dumps({**result, "sums": sums.sums.tolist(), "memory": memory}) + "\n")


class Driver:
    """Sends one epoch after the other, each when the one before is complete, and keeps account of what was sent."""

    def __init__(
        self, worker: Worker, records: ColumnInput, control: ControlInput, probe: Probe, keys: int, sample: Any
    ) -> None:
        self._worker = worker
        self._records = records
        self._control = control
        self._probe = probe
        self._keys = keys
        self._sample = sample
        self._random = np.random.default_rng(1)
        self._total = 0
        self._weighted = 0

    def load(self, n: int) -> None:
        """Send every key once."""
        for first in range(0, self._keys, LOAD_BATCH):
            self._send(np.arange(first, min(first + LOAD_BATCH, self._keys)), n)

    def epoch(self) -> float:
        """Send an epoch of records; how many seconds it took to be complete."""
        return self._send(self._random.integers(0, self._keys, RECORDS), 1)

    def migrate(self, runner: PlanRunner) -> list[float]:
        """Carry a plan out, step by step, while epochs go on."""
        completed, latencies = None, list[float]()
        while (step := runner.next(time.monotonic(), completed)) is not None:
            self._control.send(*step.moves)
            latencies.append(self.epoch())
            completed = 0 if completed is None else completed + 1
        assert runner.finished
        return latencies

    def expected(self) -> list[int]:
        """What `Sums` must come to on all workers."""
        return [self._keys, self._total, self._weighted]

    def _send(self, keys: Any, n: int) -> float:
        self._total += n * len(keys)
        self._weighted += n * int(keys.sum())
        batch = pa.record_batch({"key": keys, "n": np.full(len(keys), n)})
        started_s = time.monotonic()
        epoch = self._records.time + 1
        self._records.send(batch)
        self._control.advance_to(epoch)
        self._records.advance_to(epoch)
        self._worker.step_while(lambda: self._sample(self._probe.less_than(epoch)))
        return time.monotonic() - started_s


def rss_mb() -> float:
    """What this process has in memory just now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


if __name__ == "__main__":
    execute_from_args(main)
