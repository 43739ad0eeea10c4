"""Counts by key in two processes while a plan moves half of worker 0's bins; prints what the epochs felt of it.

    python tests/bench/programs/migration.py -n2 PLAN BINS KEYS_PER_BIN [TIMELINE]

Each process prints a line with its memory, process 0 also what the epochs felt. With TIMELINE that also holds (seconds
since the plan began, latency in ms) of every epoch.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from functools import partial
from random import Random
from typing import Any

from framework.membership.members import WorkerId
from operators import ControlInput, Input, Probe, Worker, execute_from_args
from routing.bins import Bins
from routing.migration.plan import Plan
from routing.migration.runner import PlanRunner
from routing.migration.strategies import Reassignment, all_at_once, fluid, optimized

PLANS = {"all-at-once": all_at_once, "fluid": fluid, "optimized": optimized}
RECORDS, STEADY_EPOCHS, LOAD_BATCH = 200, 400, 10_000


def count(key: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(key, total + n)]


def main(worker: Worker) -> None:
    plan_name, bins, keys_per_bin = worker.args[0], int(worker.args[1]), int(worker.args[2])
    records, control, probe, seen = Input[Any](), ControlInput(), Probe(), [0]
    with worker.dataflow("migration") as scope:
        (
            records.stream(scope)
            .stateful_state_machine(count, initial=0, control=control.stream(scope).broadcast(), bins=bins)
            .inspect_batch(lambda _, rows: seen.__setitem__(0, seen[0] + len(rows)))
            .probe(probe)
        )
    if worker.index != 0:
        records.close()
        control.close()
        loaded = -(-bins * keys_per_bin // LOAD_BATCH)
        worker.step_while(partial(probe.less_than, loaded + STEADY_EPOCHS))
        before_mb = _rss_mb()
        worker.complete()
        sys.stdout.write(json.dumps({"before_mb": before_mb, "peak_mb": _rss_mb()}) + "\n")
        return
    driver = _Driver(worker, records, control, probe, bins * keys_per_bin)
    driver.load()
    gc.collect()
    gc.freeze()  # the loaded keys are not garbage; looking through them would be a stall of Python's own
    steady = [driver.epoch() for _ in range(STEADY_EPOCHS)]
    current = Bins(bins).initial_owners(worker.members.workers)
    target = [WorkerId(1) if index % 4 == 0 else owner for index, owner in enumerate(current)]
    before_mb = _rss_mb()
    moving = list[tuple[float, float]]()
    began_s = time.monotonic()
    # The longest of many steps is longer than that of few: with fewer bins, there and back until there were as many.
    for _ in range(1 if plan_name == "all-at-once" else max(1, 1024 // bins)):
        moving += driver.migrate(PLANS[plan_name](Reassignment(current, target)))
        current, target = target, current
    ended_s = time.monotonic()
    after = [driver.epoch() for _ in range(STEADY_EPOCHS)]
    result: dict[str, Any] = {
        "stall_ms": 1000 * max(latency for _, latency in moving),
        "steady_p50_ms": 1000 * sorted(latency for _, latency in steady)[len(steady) // 2],
        "steady_max_ms": 1000 * max(latency for _, latency in steady),
        "duration_s": ended_s - began_s,
        "before_mb": before_mb,
        "peak_mb": _rss_mb(),
    }
    if len(worker.args) > 3:
        result["timeline"] = [[at - began_s, 1000 * latency] for at, latency in [*steady, *moving, *after]]
    sys.stdout.write(json.dumps(result) + "\n")


class _Driver:
    """Sends one epoch after the other, each when the one before is complete."""

    def __init__(self, worker: Worker, records: Input[Any], control: ControlInput, probe: Probe, keys: int) -> None:
        self._worker = worker
        self._records = records
        self._control = control
        self._probe = probe
        self._keys = keys
        self._random = Random(1)

    def load(self) -> None:
        """Give every key a state."""
        for first in range(0, self._keys, LOAD_BATCH):
            self._send([(f"key{number}", 1) for number in range(first, min(first + LOAD_BATCH, self._keys))])

    def epoch(self) -> tuple[float, float]:
        """Send an epoch of records; return when it was sent and how long it took to be complete."""
        return self._send([(f"key{self._random.randrange(self._keys)}", 1) for _ in range(RECORDS)])

    def migrate(self, plan: Plan) -> list[tuple[float, float]]:
        """Carry a plan out, step by step, while epochs go on."""
        runner, completed, latencies = PlanRunner(plan), None, list[tuple[float, float]]()
        while (step := runner.next(time.monotonic(), completed)) is not None:
            self._control.send(*step.moves)
            latencies.append(self.epoch())
            completed = 0 if completed is None else completed + 1  # the command's epoch is: its bins have arrived
        assert runner.finished
        return latencies

    def _send(self, rows: list[tuple[str, int]]) -> tuple[float, float]:
        started_s = time.monotonic()
        epoch = self._records.time + 1
        self._records.send_batch(rows)
        self._control.advance_to(epoch)
        self._records.advance_to(epoch)
        self._worker.step_while(partial(self._probe.less_than, epoch))
        return started_s, time.monotonic() - started_s


def _rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    execute_from_args(main)
