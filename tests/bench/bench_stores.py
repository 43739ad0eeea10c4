"""What state on disk costs, that it keeps within its memory, and the measurements behind its layout."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from rocksdict import Options, Rdict, SstFileWriter, WriteBatch

from routing.bins import BinId, Bins
from routing.state.memory import MemoryStore
from routing.state.rocks import RocksStore
from routing.state.rocks_budget import MIB
from routing.state.store import KeyedStore
from tests.bench.harness import Bar, Progress, bench, seconds

EXAMPLE = Path(__file__).parents[2] / "examples" / "state_larger_than_memory.py"
KEYS, BATCH = 100_000, 1_000
FAMILIES = 64


@bench("store-memory")
def store_memory(progress: Progress) -> Iterator[Bar]:
    """A job in a process of its own, whose state is more than four times its memory budget."""
    jobs = {
        "RocksDB job": ["--memory-mib", "64", "--sensors", "100000"],
        "RocksDB job of columns": ["--memory-mib", "32", "--sensors", "2000000", "--columns"],
    }
    for job, arguments in jobs.items():
        figures, notes = [], []
        for repeat in range(3):
            progress(f"{job}, repeat {repeat + 1} of 3")
            table = _table(*arguments)
            assert table["state"] >= 4 * table["memory budget"], table
            figures.append(table["memory growth"] / table["memory budget"])
            notes.append(table["keys/s"])
        note = f"{table['state']:.0f} MiB of state, {max(notes):,.0f} keys/s"
        yield Bar.of(f"{job}, resident memory growth / budget", figures, "<=", 1.0, note=note)


@bench("store-rates")
def store_rates(progress: Progress) -> Iterator[Bar]:
    """Batches of 1000 keys read, changed and written, in both stores, the state in cache and beyond it."""
    keys = [f"key {number:09}" for number in range(KEYS)]
    Random(1).shuffle(keys)
    for name, state_bytes in (("small states", 10), ("states of 1 kB, 3 x the budget", 1000)):
        progress(name)
        rates = {}
        with TemporaryDirectory() as folder:
            for kind, make in (("memory", MemoryStore), ("rocks", RocksStore.maker(folder, 32 * MIB))):
                rates[kind] = 2 * KEYS / seconds(partial(_update_twice, make, keys, Random(1).randbytes(state_bytes)))
        yield Bar(
            f"RocksDB / memory, keys/s, {name}",
            rates["rocks"] / rates["memory"],
            0.02,
            ">=",
            note=f"{rates['rocks']:,.0f} / {rates['memory']:,.0f} keys/s",
        )


def _update_twice(make: Callable[[Bins], KeyedStore], keys: list[str], state: bytes) -> None:
    store = make(Bins())
    for number in range(2):
        for start in range(0, len(keys), BATCH):
            some = keys[start : start + BATCH]
            states = store.begin(some)
            born = [key for key in some if key not in states]
            states.update((key, (number, state)) for key in some)
            store.end(states, born=born, changed=some, gone=[])
    store.close()


@bench("store-layouts")
def store_layouts(progress: Progress) -> Iterator[Bar]:
    """The choices of `routing.state.rocks`: prefixes, chunks and range deletions against what else there is."""
    with TemporaryDirectory() as folder:
        progress("column families")
        families = seconds(partial(_make_and_drop_families, f"{folder}/families"))
        progress("chunks")
        maker = RocksStore.maker(f"{folder}/stores", 256 * MIB)
        sender, receiver = _filled(maker), maker(Bins())
        chunks = seconds(lambda: _ship(sender, receiver))
        assert sum(receiver.bins().values()) == KEYS
        sender.close()
        receiver.close()
        progress("SST files")
        files = seconds(partial(_ship_files, _fill_raw(f"{folder}/sender"), f"{folder}/receiver", Path(folder)))
        progress("deletions")
        one_by_one = seconds(partial(_delete_one_by_one, _fill_raw(f"{folder}/deletes")))
        by_range = seconds(partial(_delete_ranges, _fill_raw(f"{folder}/ranges")))
    yield Bar(
        "bins leave and arrive as chunks / as SST files, speed",
        files / chunks,
        1.0,
        ">=",
        note=f"{KEYS / chunks:,.0f} / {KEYS / files:,.0f} keys/s",
    )
    yield Bar(
        f"{FAMILIES} column families made and half of them dropped / half of {KEYS:,} keys by ranges, time",
        families / by_range,
        1.0,
        ">=",
        note=f"{families:.2f} / {by_range:.4f} s",
    )
    yield Bar(
        "half of the bins deleted key by key / by range, time",
        one_by_one / by_range,
        1.0,
        ">=",
        note=f"{one_by_one:.2f} / {by_range:.4f} s",
    )


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    return options


def _make_and_drop_families(path: str) -> None:
    db = Rdict(path, _options())
    families = [db.create_column_family(str(number), _options()) for number in range(FAMILIES)]
    for number, family in enumerate(families):
        family[b"key"] = b"state"
        if number % 2:
            db.drop_column_family(str(number))


def _filled(make: Callable[[Bins], KeyedStore]) -> KeyedStore:
    store, keys = make(Bins()), [f"key {number:09}" for number in range(KEYS)]
    for start in range(0, KEYS, BATCH):
        some = keys[start : start + BATCH]
        states = dict.fromkeys(some, b"s" * 50)
        store.begin(some)
        store.end(states, born=some, changed=some, gone=[])
    return store


def _ship(sender: KeyedStore, receiver: KeyedStore) -> None:
    for bin_id in sender.bins():
        for chunk in sender.extract(bin_id, 256 * 1024):
            receiver.install(bin_id, chunk)


def _fill_raw(path: str) -> Rdict:
    db, bins = Rdict(path, _options()), Bins()
    batch = WriteBatch(raw_mode=True)
    for number in range(KEYS):
        key = f"key {number:09}"
        batch[_start(bins.of(key)) + key.encode()] = b"s" * 50
    db.write(batch)
    return db


def _ship_files(sender: Rdict, receiver_path: str, folder: Path) -> None:
    receiver = Rdict(receiver_path, _options())
    entries: dict[int, list[tuple[Any, Any]]] = {}
    for place, state in sender.items():
        assert isinstance(place, bytes)
        entries.setdefault(struct.unpack(">H", place[:2])[0], []).append((place, state))
    for bin_id, rows in entries.items():
        path, writer = str(folder / f"{bin_id}.sst"), SstFileWriter(_options())
        writer.open(path)
        for place, state in rows:
            writer[place] = state
        writer.finish()
        sender.delete_range(_start(BinId(bin_id)), _start(BinId(bin_id + 1)))
        receiver.ingest_external_file([path])


def _delete_one_by_one(db: Rdict) -> None:
    batch = WriteBatch(raw_mode=True)
    for place, _ in db.items():
        assert isinstance(place, bytes)
        if place < _start(BinId(128)):
            batch.delete(place)
    db.write(batch)


def _delete_ranges(db: Rdict) -> None:
    for number in range(128):
        db.delete_range(_start(BinId(number)), _start(BinId(number + 1)))


def _start(bin_id: BinId) -> bytes:
    return struct.pack(">H", bin_id)


def _table(*arguments: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    found = (re.match(r"(\S.*?)\s{2,}([\d.,]+)", line) for line in done.stdout.splitlines())
    return {match[1]: float(match[2].replace(",", "")) for match in found if match}
