"""Mutated batches and chunks, through all that takes bytes for addresses: a process must not crash on any of them.

    python -m tests.bench.programs.fuzz_columns 1000000 --seed 7

A frame is one that this job's own code makes, with some bytes changed: mostly in offsets, codes, lengths and hashes,
sometimes in Arrow's metadata. It is decoded, partitioned and hashed, installed or merged, and extracted again. That it
is refused is well; that it ends the process, or writes beyond a buffer of Arrow's, is not. Frames run in a child
process, which tells the number of the frame at hand: a number and a seed give the same frame again (`--only`).
"""

from __future__ import annotations

import argparse
import faulthandler
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from framework.errors import ProtocolError
from framework.wire.columns import decode_batch, encode_batch
from operators.columns import aggregates as agg
from operators.columns.aggregating import CompiledAggregates
from operators.columns.combining import Combined
from operators.columns.partials import Partials
from routing.bins import BinId, Bins
from routing.columns.keys import KeyColumns
from routing.columns.partition import Division, divide
from routing.columns.state import TableState
from routing.columns.table.dirty_entries import DirtyEntries
from routing.columns.table.table import Table
from routing.columns.take import decode, take
from routing.columns.window_state import WindowState
from routing.state.timers import PendingTimers

BINS = Bins(16)
PARTS = 3
ROWS = 40
MUTATIONS_MAX = 4
REUSED_FRAMES = 1000
"""After so many frames, a table is replaced by a new one."""

SECONDS_MAX = 3600
NUMBERS = [0, 1, -1, 3, 7, 8, 255, 4096, 65_535, 65_536, 1_000_000, -5000, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1]


@dataclass(frozen=True, slots=True)
class Target:
    """A frame, and what is done with one."""

    frame: bytes
    receive: Callable[[bytes], None]


def mutate(frame: bytes, random: Random) -> bytes:
    """A frame with some of its bytes changed."""
    octets = bytearray(frame)
    for _ in range(random.randint(1, MUTATIONS_MAX)):
        size = random.choice((1, 1, 4, 4, 4, 8, 8))
        at = random.randrange(len(octets) - size)
        if random.random() < 0.8:
            at -= at % size
        if size == 1:
            octets[at] ^= 1 << random.randrange(8)
        else:
            number = random.choice(NUMBERS) + random.choice((0, 0, random.randint(-9, 9)))
            octets[at : at + size] = (number % 2 ** (8 * size)).to_bytes(size, "little")
    if random.random() < 0.02:
        del octets[random.randrange(len(octets)) :]
    return bytes(octets)


def targets() -> list[Target]:
    """One of each kind of frame."""
    random = Random(0)
    words = ["tea", "milk", "", "a longer word than eight bytes", "rum"]
    chosen = [random.choice(words) for _ in range(ROWS)]
    numbers = pa.array([random.randrange(-5, 5) for _ in range(ROWS)], pa.int64())
    nulls = pa.array([word if random.random() < 0.8 else None for word in chosen])
    plain = pa.record_batch({"word": chosen, "n": numbers})
    batches = [
        plain,
        pa.record_batch({"word": pa.array(chosen).dictionary_encode(), "n": numbers}),
        pa.record_batch({"word": nulls, "n": numbers}),
        pa.record_batch({"word": nulls.dictionary_encode(), "n": numbers}),
        pa.record_batch({"word": pa.array(chosen, pa.large_string()), "n": numbers}),
        pa.record_batch({"word": chosen, "n": numbers, "list": [[n, n] for n in range(ROWS)], "view": _view(chosen)}),
    ]
    found = [Target(encode_batch(batch), _exchanging(batch.schema)) for batch in batches]
    for names in (["word"], ["n"], ["word", "n"], ["n", "word"]):
        found += [_chunk_of_table(plain, names), _chunk_of_window(plain, names)]
    return [*found, *_partials(plain)]


def _view(words: list[str]) -> pa.Array:
    return pa.array(words, pa.string_view())


def _exchanging(schema: pa.Schema) -> Callable[[bytes], None]:
    """To decode a batch, scatter its rows by each key, and count those of each part as their owners do."""
    keys = [KeyColumns.of(schema, names, "a fuzz") for names in (["word"], ["n"], ["n", "word"])]
    division = Division(BINS.shift, np.arange(BINS.count, dtype=np.uint16) % PARTS, PARTS)
    order = np.arange(ROWS - 1, -1, -1)
    combined = Combined.of(schema, {"count": agg.count()}, "a fuzz", per_record=False)
    counting = [CompiledAggregates(combined, key) for key in keys]

    def receive(octets: bytes) -> None:
        batch = decode_batch(octets)
        for column in batch.columns:
            if len(column) == ROWS:
                take(column, order)
        if "word" in batch.schema.names and pa.types.is_dictionary(batch.column("word").type):
            decode(batch.column("word"), pa.string())
        for key, compiled in zip(keys, counting, strict=True):
            for whole in [batch, *divide(batch, key, division)]:
                part, table, dirty = (
                    decode_batch(encode_batch(whole)),
                    Table(BINS, compiled.state_words),
                    DirtyEntries(),
                )
                compiled.apply(table, compiled.records(part, key.keys(part)), dirty)
                compiled.results(table, dirty.take())

    return receive


def _chunk_of_table(rows: pa.RecordBatch, names: list[str]) -> Target:
    key, state = KeyColumns.of(rows.schema, names, "a fuzz"), pa.schema({"n": pa.int64(), "sketch": pa.binary(16)})
    table, reused = Table(BINS, 3), Counter[str]()
    bins = TableState(table, key, state, PendingTimers())
    keys = key.keys(rows.slice(0, 12))
    table.install(keys, np.ones((12, 3), np.uint64))
    [chunk, *_] = max((list(bins.extract(bin_id, 2**20)) for bin_id in bins.bins()), key=lambda some: len(some[0]))

    def receive(octets: bytes) -> None:
        _renew(reused, table)
        try:
            bins.install(BinId(0), octets)
            entries = table.entries()
            key.decode(*table.gather(entries))
            table.remove(entries[::2], key.keys_from_bytes(*table.gather(entries[::2])).hashes)
        finally:
            for bin_id in bins.bins():
                for again in bins.extract(bin_id, 256):
                    decode_batch(again)

    return Target(chunk, receive)


def _chunk_of_window(rows: pa.RecordBatch, names: list[str]) -> Target:
    key, state = KeyColumns.of(rows.schema, names, "a fuzz"), pa.schema({"n": pa.float64(), "is": pa.bool_()})
    windows = WindowState(BINS, 2, key, state, PendingTimers())
    windows.window(5).table.install(key.keys(rows.slice(0, 12)), np.ones((12, 2), np.uint64))
    [chunk, *_] = max(
        (list(windows.extract(bin_id, 2**20)) for bin_id in windows.bins()), key=lambda some: len(some[0])
    )

    def receive(octets: bytes) -> None:
        try:
            windows.install(BinId(0), octets)
        finally:
            for bin_id in windows.bins():
                for again in windows.extract(bin_id, 256):
                    decode_batch(again[:-8])
            windows.close()

    return Target(chunk, receive)


def _partials(rows: pa.RecordBatch) -> list[Target]:
    """Batches of partial states, which an owner merges: their hashes are believed."""
    aggregates = {
        "count": agg.count(),
        "least": agg.min("n"),
        "spread": agg.variance("n"),
        "distinct": agg.approx_distinct("n", error=0.3),
    }
    found = []
    for names in (["word"], ["word", "n"]):
        key = KeyColumns.of(rows.schema, names, "a fuzz")
        combined = Combined.of(rows.schema, aggregates, "a fuzz", per_record=False)
        compiled = CompiledAggregates(combined, key)
        partials, table, reused = Partials(combined, compiled, key), Table(BINS, combined.state_words), Counter[str]()
        many = pa.concat_batches([rows] * 20)
        made = partials.combine(many)
        assert Partials.are_in(made)
        found.append(Target(encode_batch(made), _merging(partials, compiled, key, table, reused)))
    return found


def _merging(
    partials: Partials, compiled: CompiledAggregates, key: KeyColumns, table: Table, reused: Counter[str]
) -> Callable[[bytes], None]:
    dirty = DirtyEntries()

    def receive(octets: bytes) -> None:
        _renew(reused, table)
        batch = decode_batch(octets)
        if not Partials.are_in(batch):
            raise ProtocolError("no partial states")
        try:
            partials.merge(table, batch, key.keys(batch), dirty)
        finally:
            entries = dirty.take()
            compiled.results(table, entries)
            some = entries[:2]
            table.remove(some, key.keys_from_bytes(*table.gather(some)).hashes)

    return receive


def _renew(reused: Counter[str], table: Table) -> None:
    reused["frames"] += 1
    if reused["frames"] % REUSED_FRAMES == 0:
        table.close()


def frame_of(number: int, seed: int, kinds: list[Target]) -> tuple[Target, bytes]:
    """A frame by its number, and where it goes."""
    random = Random(f"{seed}/{number}")
    target = random.choice(kinds)
    return target, mutate(target.frame, random)


def _receive_all(first: int, end: int, seed: int, at: Any, outcomes: Any) -> None:
    """What the child does."""
    faulthandler.enable()
    kinds = targets()
    for target in kinds:
        target.receive(target.frame)
    seen: Counter[str] = Counter()
    for number in range(first, end):
        at.value = number
        target, octets = frame_of(number, seed, kinds)
        try:
            target.receive(octets)
            seen["accepted"] += 1
        except Exception as error:
            seen[type(error).__name__] += 1
    outcomes.put(dict(seen))


def fuzz(first: int, end: int, seed: int, seconds_max: float = SECONDS_MAX) -> dict[str, int]:
    """What became of these frames, by the name of the error or "accepted"; raises if the child crashed or hangs."""
    os.environ["ARROW_DEBUG_MEMORY_POOL"] = "abort"  # Arrow notices writes beyond its buffers
    context = get_context("spawn")
    at, outcomes = context.Value("q", -1, lock=False), context.SimpleQueue()
    child = context.Process(target=_receive_all, args=(first, end, seed, at, outcomes))
    child.start()
    child.join(seconds_max)
    where = f"frame {at.value} of seed {seed}"
    if child.is_alive():
        child.kill()
        child.join()
        raise AssertionError(f"{where} takes for ever")
    assert child.exitcode == 0, f"{where} ended the process with {child.exitcode}"
    found: dict[str, int] = outcomes.get()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("frames", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one frame")
    given = parser.parse_args()
    first, end = (0, given.frames) if given.only is None else (given.only, given.only + 1)
    found = fuzz(first, end, given.seed)
    print(f"{end - first} frames, no crash:", ", ".join(f"{count} {name}" for name, count in sorted(found.items())))


if __name__ == "__main__":
    main()
