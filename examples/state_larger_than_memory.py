"""Keeps several times more state than it may have memory, on disk, and checks every result.

    python examples/state_larger_than_memory.py                # some 150 MB of state within 32 MiB
    python examples/state_larger_than_memory.py -n 2           # two processes, each with its own 32 MiB
    python examples/state_larger_than_memory.py --sensors 1000000 --memory-mib 64

Sensors send readings that cannot be compressed. The state of a sensor is all its readings so far; with each one,
the job tells how many there are and a checksum of them all, which can only be right if nothing of the state was lost.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from functools import partial
from hashlib import shake_128
from pathlib import Path
from random import Random
from zlib import crc32

from framework.launch.config import add_flags
from operators import BinOptions, Input, Probe, Worker, execute_from_args, to_stream
from routing.store.budget import MIB
from routing.store.rocks import RocksMaker, RocksStore

READING_BYTES = 1536
BATCH = 250

Result = tuple[int, int, int]
"""A sensor, how many readings it has sent, and their checksum."""


def remember(sensor: int, reading: bytes, readings: bytes) -> tuple[bytes, list[Result]]:
    readings += reading
    return readings, [(sensor, len(readings) // READING_BYTES, crc32(readings))]


def main(worker: Worker, flags: argparse.Namespace, store: RocksMaker) -> None:
    readings, probe, check = Input[tuple[int, bytes]]("readings"), Probe(), Check()
    resident_before = resident_bytes("VmRSS")
    with worker.dataflow("sensors") as scope:
        (
            readings.stream(scope)
            .stateful_state_machine(remember, initial=b"", bins=BinOptions(store=store))
            .inspect_batch(lambda _, results: check(results))
            .probe(probe)
        )

    started_s = time.monotonic()
    mine = range(worker.index, flags.sensors, worker.peers)
    for batch in batches(mine, flags.rounds):
        readings.send_batch(batch)
        readings.advance_to(readings.time + 1)
        worker.step_while(lambda: probe.less_than(readings.time - 1))
    worker.step_while(lambda: probe.less_than(readings.time))
    seconds = time.monotonic() - started_s
    disk_bytes = store.disk_bytes()
    growth_bytes = resident_bytes("VmHWM") - resident_before
    worker.complete()

    with worker.dataflow("gather") as scope:
        row = (os.getpid(), check.right, check.wrong, disk_bytes, growth_bytes, seconds)
        gathered = to_stream(scope, [row]).exchange(lambda _: 0).extract()
    worker.complete()
    if worker.index == 0:
        report(gathered.rows(), flags)


def batches(sensors: range, rounds: int) -> Iterator[list[tuple[int, bytes]]]:
    """One reading of each sensor per round, never in the same order."""
    for number in range(rounds):
        order = list(sensors)
        Random(number).shuffle(order)
        for start in range(0, len(order), BATCH):
            yield [(sensor, reading(sensor, number)) for sensor in order[start : start + BATCH]]


def reading(sensor: int, number: int) -> bytes:
    return shake_128(b"%d %d" % (sensor, number)).digest(READING_BYTES)


class Check:
    """Makes the readings again that each result is of, and compares."""

    def __init__(self) -> None:
        self.right = 0
        self.wrong = 0

    def __call__(self, results: list[Result]) -> None:
        for sensor, count, checksum in results:
            expected = 0
            for number in range(count):
                expected = crc32(reading(sensor, number), expected)
            if checksum == expected:
                self.right += 1
            else:
                self.wrong += 1


def report(rows: list[tuple[int, int, int, int, int, float]], flags: argparse.Namespace) -> None:
    """Print a table, and raise if a result was wrong or is missing."""
    right, wrong = sum(row[1] for row in rows), sum(row[2] for row in rows)
    state_bytes = flags.sensors * flags.rounds * READING_BYTES
    growth_bytes = max(row[4] for row in rows)
    print(f"keys             {flags.sensors:>12,}")
    print(f"results          {right:>12,}   ({wrong} wrong)")
    print(f"state            {state_bytes / MIB:>12.1f} MiB")
    print(f"on disk          {sum({row[0]: row[3] for row in rows}.values()) / MIB:>12.1f} MiB")
    print(f"memory budget    {flags.memory_mib:>12.1f} MiB   per process")
    print(f"memory growth    {growth_bytes / MIB:>12.1f} MiB   at its peak, in the process that grew most")
    print(f"keys/s           {right / max(row[5] for row in rows):>12,.0f}", flush=True)
    if wrong or right != flags.sensors * flags.rounds:
        raise ResultsDiffer(f"{right} results are right and {wrong} wrong, of {flags.sensors * flags.rounds}")


class ResultsDiffer(Exception):
    """The state was not what had been sent."""


def resident_bytes(field: str) -> int:
    """How much memory this process has (VmRSS), or has had at its peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Keep more state than memory, on disk, and check every result.")
    parser.add_argument("--sensors", type=int, default=50_000, metavar="N", help="how many keys (50,000)")
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="readings of each (2)")
    parser.add_argument("--memory-mib", type=int, default=32, metavar="N", help="budget of a process's stores (32)")
    parser.add_argument("--directory", type=Path, help="where the state lies (a temporary directory)")
    add_flags(parser)
    flags = parser.parse_args()
    if flags.sensors < 1 or flags.rounds < 1:
        parser.error("--sensors and --rounds are at least 1")
    return flags


if __name__ == "__main__":
    flags = read_arguments()
    # One for all workers of this process, which share its budget.
    store = RocksStore.maker(flags.directory, flags.memory_mib * MIB)
    execute_from_args(partial(main, flags=flags, store=store))
