"""Counts by key at a steady pace while processes join; prints what the epochs felt, and how the joiners fared.

    python tests/bench/programs/rescale.py -n2 -p0 --base-port PORT KEYS RECORDS EPOCH_MS SECONDS [WAIT_US]
    python tests/bench/programs/rescale.py -n2 -p2 --join 0 --base-port PORT KEYS RECORDS EPOCH_MS SECONDS [WAIT_US]

Worker 0 gives every key a state, prints a line, and then sends so many records every so many milliseconds, whether or
not what it sent before is complete; an epoch's latency is counted from when it was due. With WAIT_US each record costs
its worker a wait, as a call to another service would: work that more processes carry on any number of cores. A joiner
waits for a line on its standard input before it connects, so that its start is over when it joins.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections import deque
from random import Random
from typing import Any

from operators import ControlInput, Input, Probe, Worker, execute_from_args
from operators.job.steward import Steward

LOAD_BATCH = 10_000
BINS = 256


def main(worker: Worker) -> None:
    keys, records, epoch_ms, seconds, wait_us = (*map(float, worker.args), 0.0)[:5]
    numbers, control, probe = Input[Any]("numbers"), ControlInput(), Probe()
    first: list[float] = []

    def count(key: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
        if wait_us:
            time.sleep(wait_us / 1e6)
        return total + n, [(key, total + n)]

    with worker.dataflow("rescale") as scope:
        (
            numbers.stream(scope)
            .stateful_state_machine(count, initial=0, control=control.stream(scope).broadcast(), bins=BINS)
            .inspect_batch(lambda _, rows: first.append(time.monotonic()) if not first else None)
            .probe(probe)
        )
    if worker.bootstrap() or worker.index:
        joined_s = time.monotonic()
        numbers.close()
        control.close()
        worker.complete()
        if worker.membership.joined:
            print(
                json.dumps(
                    {
                        "worker": worker.index,
                        "joined_ms": 1000 * (joined_s - STARTED_S),
                        "first_record_ms": 1000 * (first[0] - STARTED_S) if first else None,
                        "inherited_bytes": worker.membership.phases.inherited_bytes,
                        "phases_ms": {
                            phase: 1000 * spent_s for phase, spent_s in worker.membership.phases.durations_s().items()
                        },
                    }
                ),
                flush=True,
            )
        return
    feeder = _Feeder(worker, numbers, control, probe, int(keys))
    feeder.load()
    print("loaded", flush=True)
    gc.collect()
    gc.freeze()
    print(
        json.dumps({"timeline": feeder.run(int(records), epoch_ms / 1000, seconds), "joined": feeder.joined}),
        flush=True,
    )


class _Feeder:
    """Sends epochs when they are due."""

    def __init__(self, worker: Worker, numbers: Input[Any], control: ControlInput, probe: Probe, keys: int) -> None:
        self.joined: list[tuple[float, int]] = []
        self._worker = worker
        self._numbers = numbers
        self._control = control
        self._probe = probe
        self._keys = keys
        self._random = Random(1)
        self._steward = Steward(worker, control)
        self._began_s = 0.0
        worker.membership.on_joined.append(
            lambda joiner: self.joined.append((time.monotonic() - self._began_s, joiner))
        )

    def load(self) -> None:
        """Give every key a state."""
        for start in range(0, self._keys, LOAD_BATCH):
            self._send([(f"key{number}", 0) for number in range(start, min(start + LOAD_BATCH, self._keys))])
            self._worker.step_while(lambda: self._probe.less_than(self._numbers.time))

    def run(self, records: int, epoch_s: float, seconds: float) -> list[tuple[float, float]]:
        """Seconds since the beginning, and latency in ms, of each epoch."""
        timeline: list[tuple[float, float]] = []
        waiting: deque[tuple[int, float]] = deque()
        self._began_s = due_s = time.monotonic()
        while due_s < self._began_s + seconds or waiting:
            now_s = time.monotonic()
            if due_s <= now_s and due_s < self._began_s + seconds:
                waiting.append((self._numbers.time, due_s))
                self._send([(f"key{self._random.randrange(self._keys)}", 1) for _ in range(records)])
                due_s += epoch_s
            self._worker.step_or_park(max(0.0, due_s - time.monotonic()) if due_s < self._began_s + seconds else None)
            now_s = time.monotonic()
            while waiting and not self._probe.less_equal(waiting[0][0]):
                _, sent_s = waiting.popleft()
                timeline.append((sent_s - self._began_s, 1000 * (now_s - sent_s)))
        return timeline

    def _send(self, rows: list[tuple[str, int]]) -> None:
        epoch = self._numbers.time + 1
        self._numbers.send_batch(rows)
        self._steward.advance_to(epoch)
        self._numbers.advance_to(epoch)


if __name__ == "__main__":
    if "--join" in sys.argv:
        print("ready", flush=True)
        sys.stdin.readline()
    STARTED_S = time.monotonic()
    execute_from_args(main)
