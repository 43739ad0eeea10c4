"""Stores: whatever is done to them, those in memory and on disk hold the same, and bins go from any to any."""

from __future__ import annotations

import os
import socket
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import copy
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framework.file_lock import holder
from framework.wire import codec
from routing.bins import BinId, Bins
from routing.state import memory
from routing.state.errors import (
    MemoryBudgetTooSmall,
    StoreCorrupt,
    StoreLocked,
    StoreUnusable,
    UnencodableState,
)
from routing.state.key_bytes import key_from_bytes, key_to_bytes
from routing.state.keyed import KeyedState
from routing.state.memory import GATHER_MAX, MemoryStore
from routing.state.rocks import RocksStore
from routing.state.rocks_budget import MEMORY_BYTES_MIN, MIB
from routing.state.store import SAMPLE_ENTRIES, KeyedStore, decode_chunk, sampled_entry_bytes
from routing.state.timers import PendingTimers

BINS = Bins(4)


class Drink(StrEnum):
    TEA = "tea"


class Side(Enum):
    BUY = 1
    SELL = 2


class Point(NamedTuple):
    x: int
    y: int


codec.register(Drink, "test_store.Drink", encode=str, decode=Drink)
codec.register(Point, "test_store.Point")


@pytest.fixture
def rocks(tmp_path: Path) -> Iterator[Callable[[], RocksStore]]:
    """Makes stores on disk."""
    maker = RocksStore.maker(tmp_path / "stores", 32 * MIB)
    with ExitStack() as stack:

        def make() -> RocksStore:
            store = maker(BINS)
            stack.callback(store.close)
            return store

        yield make


@pytest.fixture
def on_disk(rocks: Callable[[], RocksStore]) -> RocksStore:
    return rocks()


def put(store: KeyedStore, entries: dict[Any, Any]) -> None:
    """Set states; None forgets a key."""
    states = store.begin(entries)
    born = [key for key in entries if key not in states]
    for key, state in entries.items():
        if state is None:
            states.pop(key, None)
        else:
            states[key] = state
    store.end(states, born=born, changed=entries, gone=[key for key, state in entries.items() if state is None])


def ship(sender: KeyedStore, receiver: KeyedStore, bin_id: BinId, chunk_bytes_max: int) -> int:
    chunks = 0
    for chunk in sender.extract(bin_id, chunk_bytes_max):
        receiver.install(bin_id, chunk)
        chunks += 1
    return chunks


def contents(store: KeyedStore, keys: list[Any]) -> dict[Any, Any]:
    states = store.begin(keys)
    return {key: states[key] for key in keys if key in states}


KEYS = st.one_of(
    st.sampled_from(["", "tea", "\ud800", b"tea", 0, 1, -1, True, 1.0, 1.5, 2**70, 1e300, None, Drink.TEA]),
    st.sampled_from([("tea", 1), ("tea", True), (), (None, (1.0, b"")), Point(1, 2), (1, 2), (Decimal("1.0"), 2)]),
    st.sampled_from([Decimal("1.50"), Decimal("0.1"), Decimal("0.10"), np.int8(1), np.float32(1.5), np.str_("tea")]),
    st.sampled_from([UUID(int=1), UUID(int=2), Side.BUY, Side.SELL]),
)
STATES = st.one_of(
    st.none(), st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=3), st.tuples(st.floats(0, 1))
)
OPERATIONS = st.one_of(
    st.dictionaries(KEYS, STATES, max_size=6),
    st.tuples(st.integers(0, 3), st.sampled_from([1, 40, 10_000])),
)
"""States to set, or a bin to ship to the other store and the size of its chunks."""


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS, max_size=12))
def test_whatever_is_done_stores_of_both_kinds_hold_the_same(operations: list[Any], on_disk: RocksStore):
    """Two workers, one on disk and one in memory, against a dictionary; keys go to the owner of their bin."""
    stores: list[KeyedStore] = [on_disk, MemoryStore(BINS)]
    model: dict[Any, Any] = {}
    owners = [0, 1, 0, 1]
    for operation in operations:
        match operation:
            case dict() as entries:
                model.update(entries)
                for worker, store in enumerate(stores):
                    put(store, {key: state for key, state in entries.items() if owners[BINS.of(key)] == worker})
            case int(bin_id), int(chunk_bytes_max):
                sender = owners[bin_id]
                owners[bin_id] = 1 - sender
                ship(stores[sender], stores[1 - sender], BinId(bin_id), chunk_bytes_max)
    model = {key: state for key, state in model.items() if state is not None}
    for worker, store in enumerate(stores):
        expected = {key: state for key, state in model.items() if owners[BINS.of(key)] == worker}
        assert contents(store, list(model)) == expected
        assert store.bins() == Counter(BINS.of(key) for key in expected)
    for bin_id in on_disk.bins():
        list(on_disk.extract(bin_id, 1000))


@given(KEYS, KEYS)
def test_keys_have_equal_bytes_if_and_only_if_they_are_equal(one: Any, other: Any):
    assert (key_to_bytes(one) == key_to_bytes(other)) == (hash(one) == hash(other) and one == other)
    assert key_from_bytes(key_to_bytes(one)) == one


def test_state_keeps_its_types(rocks: Callable[[], RocksStore]):
    store = rocks()
    state = {"a": (1, [2.0, b"x"]), 3: frozenset({True})}
    put(store, {"k": state})
    found = store.begin(["k"])["k"]
    assert found == state
    assert type(found["a"]) is tuple


def test_only_the_keys_of_the_batch_are_in_memory(rocks: Callable[[], RocksStore]):
    store = rocks()
    put(store, dict.fromkeys(range(1000), "state"))
    assert store.begin([7, 2000, 7, 7.0]) == {7: "state"}


def test_what_a_batch_changed_without_an_end_is_not_kept(rocks: Callable[[], RocksStore]):
    store = rocks()
    put(store, {"k": [1]})
    store.begin(["k"])["k"].append(2)
    assert store.begin(["k"]) == {"k": [1]}


@pytest.mark.parametrize("way", ["rocks to memory", "memory to rocks", "rocks to rocks"])
def test_a_large_bin_leaves_piece_by_piece(way: str, rocks: Callable[[], RocksStore]):
    first, last = way.split(" to ")
    make: dict[str, Callable[[], KeyedStore]] = {"rocks": rocks, "memory": lambda: MemoryStore(BINS)}
    sender, receiver = make[first](), make[last]()
    keys = [f"key {number}" for number in range(20_000)]
    put(sender, dict.fromkeys(keys, "x" * 100))
    before = sender.bins()
    for bin_id in before:
        for chunk in sender.extract(bin_id, 10_000):
            assert len(chunk) <= 10_000
            assert bin_id not in sender.bins()
            receiver.install(bin_id, chunk)
    assert (sender.bins(), receiver.bins()) == ({}, before)
    assert contents(receiver, keys) == dict.fromkeys(keys, "x" * 100)
    assert sum(ship(receiver, sender, bin_id, 10_000) for bin_id in before) > 200
    assert contents(sender, keys) == dict.fromkeys(keys, "x" * 100)


def test_the_last_of_the_most_bins_can_leave(tmp_path: Path):
    bins = Bins(2**16)
    last = next(number for number in range(10**7) if bins.of(number) == 2**16 - 1)
    store = RocksStore.maker(tmp_path, 32 * MIB)(bins)
    put(store, {last: "state", "other": 1})
    chunks = list(store.extract(BinId(2**16 - 1), 1000))
    assert [decode_chunk(chunk) for chunk in chunks] == [[(last, "state")]]
    assert contents(store, [last, "other"]) == {"other": 1}
    store.close()


def test_a_directory_is_private_and_goes_when_its_store_is_closed(tmp_path: Path):
    store = RocksStore.maker(tmp_path, 32 * MIB)(BINS)
    [path] = tmp_path.glob("store-*")
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert holder(path / "owner") == f"process {os.getpid()} on {socket.gethostname()}"
    store.close()
    store.close()
    assert list(tmp_path.glob("store-*")) == []


def test_the_default_directory_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    maker = RocksStore.maker()
    store = maker(BINS)
    [parent] = tmp_path.iterdir()
    assert (parent.name, stat.S_IMODE(parent.stat().st_mode)) == (f"hailer-{os.getuid()}", 0o700)
    store.close()
    parent.chmod(0o755)
    with pytest.raises(StoreUnusable, match="others made it or may enter it"):
        maker(BINS)


def test_a_copy_of_a_maker_has_stores_of_its_own(tmp_path: Path):
    maker = RocksStore.maker(tmp_path, MEMORY_BYTES_MIN)
    store = maker(Bins(2))
    copied = copy(maker)
    assert (copied.directory, copied.memory_bytes, copied.disk_bytes()) == (tmp_path, MEMORY_BYTES_MIN, 0)
    store.close()


def test_a_directory_that_is_in_use_is_refused_by_name(tmp_path: Path):
    store = RocksStore.open(BINS, tmp_path, 32 * MIB)
    with pytest.raises(StoreLocked, match=f"in use by process {os.getpid()} on .*; let that job end, or give each"):
        RocksStore.open(BINS, tmp_path, 32 * MIB)
    put(store, {"k": 1})
    store.close()
    again = RocksStore.open(BINS, tmp_path, 32 * MIB)
    assert (contents(again, ["k"]), again.bins()) == ({"k": 1}, {BINS.of("k"): 1})
    again.close()


def test_what_dead_processes_left_is_removed_and_what_others_hold_is_not(tmp_path: Path):
    for name, owner in [
        ("store-dead", f"process 1 on {socket.gethostname()}"),
        ("store-unborn", ""),
        ("store-elsewhere", "process 1 on another-machine\nbooted-otherwise"),
    ]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "owner").write_text(owner)
    maker = RocksStore.maker(tmp_path, 32 * MIB)
    stores = [maker(BINS), maker(BINS)]
    names = {path.name for path in tmp_path.glob("store-*")}
    assert len(names) == 3
    assert names & {"store-dead", "store-unborn", "store-elsewhere"} == {"store-elsewhere"}
    for store in stores:
        put(store, {"k": 1})
        store.close()


def test_a_directory_that_cannot_be_written_to_is_told(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnusable, match=r"no state can be kept in .*file.*directory that this process may write"):
        RocksStore.maker(tmp_path / "file" / "below")(BINS)


def test_damage_is_told_and_lets_go_of_the_directory(tmp_path: Path):
    RocksStore.open(BINS, tmp_path, 32 * MIB).close()
    (tmp_path / "rocks" / "CURRENT").write_text("junk")
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match="is damaged"):
            RocksStore.open(BINS, tmp_path, 32 * MIB)


def test_a_state_that_cannot_be_encoded_is_told_and_nothing_of_its_batch_is_kept(rocks: Callable[[], RocksStore]):
    store = rocks()
    with pytest.raises(UnencodableState, match="the state of key 'k', a object, cannot be written to disk"):
        put(store, {"fine": 1, "k": object()})
    assert (contents(store, ["fine"]), store.bins()) == ({}, {})


def test_too_small_a_budget_is_refused():
    with pytest.raises(MemoryBudgetTooSmall, match=f"{MEMORY_BYTES_MIN:,} bytes or more"):
        RocksStore.maker(memory_bytes=MIB)


@pytest.mark.parametrize("batch", [7, GATHER_MAX, GATHER_MAX + 1, 5 * GATHER_MAX])
def test_a_store_of_many_keys_holds_what_a_dictionary_would(batch: int, monkeypatch: pytest.MonkeyPatch):
    """Dealt out to many dictionaries; batches that are gathered from them, and batches that visit them."""
    monkeypatch.setattr(memory, "SINGLE_MAX", 100)
    store, expected, dice = MemoryStore(BINS), dict[str, int](), Random(batch)
    for _ in range(20_000 // batch + 40):
        seen = set[str]()
        rows = [(f"k{dice.randrange(3_000)}", dice.randrange(5)) for _ in range(batch)]
        for states, group in store.groups(rows):
            assert not seen & {key for key, _ in group}, "a key is in two groups"
            seen.update(key for key, _ in group)
            born, gone = list[str](), list[str]()
            for key, n in group:
                assert states.get(key) == expected.get(key), key
                if key not in states:
                    born.append(key)
                if n:
                    states[key] = expected[key] = expected.get(key, 0) + n
                else:
                    states.pop(key, None)
                    expected.pop(key, None)
                    gone.append(key)
            store.end(states, born=born, changed=(key for key, _ in group), gone=gone)
        assert seen == {key for key, _ in rows}
    assert len(store._shards) > 1
    assert Counter(store.bins()) == Counter(map(BINS.of, expected))
    left = [
        entry
        for bin_id in map(BinId, range(4))
        for chunk in store.extract(bin_id, 1000)
        for entry in decode_chunk(chunk)
    ]
    assert sorted(left) == sorted(expected.items())
    assert not any(store._shards)


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_an_entry_is_about_as_large_as_those_that_are_looked_at(kind: str, rocks: Callable[[], RocksStore]):
    store = MemoryStore(BINS) if kind == "memory" else rocks()
    state = KeyedState(store, PendingTimers())
    assert state.entry_bytes() == 0
    put(store, {f"key {number:3}": "x" * 100 for number in range(100)})
    assert 107 < state.entry_bytes() < 120
    shipped = sum(len(chunk) for bin_id in list(store.bins()) for chunk in store.extract(bin_id, 10_000))
    assert shipped / 100 == pytest.approx(111, abs=5)


def test_only_a_few_entries_are_looked_at_and_what_cannot_travel_has_no_size():
    looked_at = iter([("key", 1)] * 1000)
    assert sampled_entry_bytes(looked_at) > 0
    assert len(list(looked_at)) == 1000 - SAMPLE_ENTRIES
    assert sampled_entry_bytes([("key", object())]) == 0
