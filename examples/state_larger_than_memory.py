"""Keeps several times more state than it may have memory, on disk, and checks every result.

    python examples/state_larger_than_memory.py                # some 150 MB of state within 32 MiB
    python examples/state_larger_than_memory.py -n 2           # two processes, each with its own 32 MiB
    python examples/state_larger_than_memory.py --sensors 1000000 --memory-mib 64
    python examples/state_larger_than_memory.py --columns --sensors 1000000

Sensors send readings that cannot be compressed. The state of a sensor is all its readings so far; with each one,
the job tells how many there are and a checksum of them all, which can only be right if nothing of the state was lost.
On columns readings are numbers, and the state is how many there were, and the last seven.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import shake_128
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from hailer import (
    BinOptions,
    ColumnInput,
    Input,
    Probe,
    RocksMaker,
    RocksStore,
    Scope,
    Worker,
    add_flags,
    execute_from_args,
    to_stream,
)

MIB = 1024 * 1024
PRIMES = (2_147_483_647, 2_147_483_629, 2_147_483_587)

Check = Callable[[int, int], None]
"""Told how many results were right, and how many wrong."""


def main(worker: Worker, flags: argparse.Namespace, store: RocksMaker) -> None:
    readings, probe, counted = Columns() if flags.columns else Rows(), Probe(), [0, 0]

    def check(right: int, wrong: int) -> None:
        counted[0] += right
        counted[1] += wrong

    if flags.columns:
        compile_before(worker, store)
    resident_before = resident_bytes("VmRSS")
    with worker.dataflow("sensors") as scope:
        readings.build(scope, BinOptions(store=store), check).probe(probe)

    started_s = time.monotonic()
    for sensors, number in turns(range(worker.index, flags.sensors, worker.peers), flags.rounds, readings.batch):
        readings.send(sensors, number)
        readings.input.advance_to(readings.input.time + 1)
        worker.step_while(lambda: probe.less_than(readings.input.time - 1))
    worker.step_while(lambda: probe.less_than(readings.input.time))
    seconds = time.monotonic() - started_s
    disk_bytes = store.disk_bytes()
    growth_bytes = resident_bytes("VmHWM") - resident_before
    worker.complete()

    with worker.dataflow("gather") as scope:
        row = (os.getpid(), counted[0], counted[1], disk_bytes, growth_bytes, seconds)
        gathered = to_stream(scope, [row]).exchange(lambda _: 0).extract()
    worker.complete()
    if worker.index == 0:
        report(gathered.rows(), flags)


def compile_before(worker: Worker, store: RocksMaker) -> None:
    """Have compiled what will be: the compiler's memory is not that of the state."""
    readings = Columns()
    with worker.dataflow("compiled") as scope:
        readings.build(scope, BinOptions(store=store), lambda right, wrong: None)
    readings.input.close()
    worker.complete()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is counted anew


def turns(sensors: range, rounds: int, batch: int) -> Iterator[tuple[list[int], int]]:
    """Some sensors, and the number of the reading that they send: each sensor once per round, in another order."""
    for number in range(rounds):
        stride = PRIMES[number % len(PRIMES)]  # an order that takes no memory, unlike one that is shuffled
        for start in range(0, len(sensors), batch):
            turn = range(start, min(start + batch, len(sensors)))
            yield [sensors[place * stride % len(sensors)] for place in turn], number


class Rows:
    """Readings of many bytes, all of which are kept."""

    batch = 250
    reading_bytes = 1536

    def __init__(self) -> None:
        self.input = Input[tuple[int, bytes]]("readings")

    def build(self, scope: Scope, bins: BinOptions, check: Check) -> Any:
        results = self.input.stream(scope).stateful_state_machine(remember, initial=b"", bins=bins)
        return results.inspect_batch(lambda _, rows: self._check(rows, check))

    def send(self, sensors: list[int], number: int) -> None:
        self.input.send_batch([(sensor, self._reading(sensor, number)) for sensor in sensors])

    def _check(self, results: list[Result], check: Check) -> None:
        """Make the readings again that each result is of, and compare."""
        for sensor, count, checksum in results:
            expected = 0
            for number in range(count):
                expected = crc32(self._reading(sensor, number), expected)
            check(checksum == expected, checksum != expected)

    def _reading(self, sensor: int, number: int) -> bytes:
        return shake_128(b"%d %d" % (sensor, number)).digest(self.reading_bytes)


Result = tuple[int, int, int]
"""A sensor, how many readings it has sent, and their checksum."""


def remember(sensor: int, reading: bytes, readings: bytes) -> tuple[bytes, list[Result]]:
    readings += reading
    return readings, [(sensor, len(readings) // Rows.reading_bytes, crc32(readings))]


class Columns:
    """Readings that are numbers, of which the last seven are kept."""

    batch = 10_000

    def __init__(self) -> None:
        self.input = ColumnInput({"sensor": int, "reading": int}, "readings")

    def build(self, scope: Scope, bins: BinOptions, check: Check) -> Any:
        results = self.input.stream(scope).stateful_state_machine(
            remember_last,
            key="sensor",
            value="reading",
            state=dict.fromkeys(("count", *"abcdefg"), int),
            initial=(0,) * 8,
            output={"sensor": int, "count": int, "checksum": int},
            bins=bins,
        )
        return results.inspect(lambda batch: self._check(batch, check))

    def send(self, sensors: list[int], number: int) -> None:
        numbers = np.array(sensors)
        self.input.send(pa.record_batch({"sensor": numbers, "reading": self._readings(numbers, number)}))

    def _check(self, results: pa.RecordBatch, check: Check) -> None:
        sensors, counts, checksums = (column.to_numpy() for column in results.columns)
        expected = np.zeros(len(sensors), np.int64)
        for place in range(min(7, counts.max(initial=0))):
            some = counts > place
            expected[some] += (7 - place) * self._readings(sensors[some], counts[some] - 1 - place)
        right = int((expected == checksums).sum())
        check(right, len(sensors) - right)

    def _readings(self, sensors: Any, number: Any) -> Any:
        return (sensors * 1_000_003 + number * 998_244_353) % 2**40


def remember_last(sensor: int, reading: int, state: Any) -> Any:
    count, _, b, c, d, e, f, g = state
    checksum = b + 2 * c + 3 * d + 4 * e + 5 * f + 6 * g + 7 * reading
    return (count + 1, b, c, d, e, f, g, reading), [(sensor, count + 1, checksum)]


def report(rows: list[tuple[int, int, int, int, int, float]], flags: argparse.Namespace) -> None:
    """Print a table, and raise if a result was wrong or is missing."""
    right, wrong = sum(row[1] for row in rows), sum(row[2] for row in rows)
    state_bytes = flags.sensors * (9 * 8 if flags.columns else flags.rounds * Rows.reading_bytes)
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
    parser.add_argument("--columns", action="store_true", help="readings as columns, and a fold that is compiled")
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
