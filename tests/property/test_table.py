"""The table of keys and states against a dictionary: no key is lost, merged with another, or found where it is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.columns.fold import CompiledFold
from operators.columns.loop import Field
from operators.stateful.fold import DISCARD
from routing.bins import BinId, Bins
from routing.columns.keys import KeyColumns, Keys
from routing.columns.table import table as table_module
from routing.columns.table.layout import ARENA_TOP, L2_SLOTS_MAX
from routing.columns.table.table import Table
from routing.hashing import stable_hash

Key = bytes | None
HashOf = Callable[[Key], int]

BINS = Bins(8)
SIZES = [0, 1, 7, 8, 9, 15, 16, 17, 24, 25, 100, 495, 496, 497, 503, 504, 505, 511, 1000, 1016, 1017, 1500]
"""Around 8 bytes, keys begin to be in the arena; around 504, their blocks are powers of two."""

LARGE_SLOTS = 2 * L2_SLOTS_MAX
SCHEMA = pa.schema({"key": pa.binary()})


def _variants(size: int) -> list[bytes]:
    """Keys of a size, most of which differ in one byte only: the first, the eighth, the ninth or the last."""
    plain = bytearray(b"a" * size)
    found = [bytes(size), bytes(plain)]
    for place in (0, 7, 8, size - 1):
        if 0 <= place < size:
            other = plain.copy()
            other[place] = ord("b")
            found.append(bytes(other))
    return found


UNIVERSE: list[Key] = [None, *dict.fromkeys(key for size in SIZES for key in _variants(size))]


def count(key: Any, n: int, total: int) -> Any:
    total += n
    return total, [(key, total)]


def thrice(key: Any, n: int, total: int) -> Any:
    total += n
    if total >= 3:
        return DISCARD, [(key, total)]
    return total, [(key, total)]


@cache
def compiled(fold: Any) -> CompiledFold:
    output = pa.schema({"key": pa.binary(), "total": pa.int64()})
    key = KeyColumns.of(SCHEMA, "key", "test")
    return CompiledFold(fold, key=key, values=[], state=[Field("total", pa.int64())], initial=(0,), output=output)


def all_alike(key: Key) -> int:
    return 0x0123456789ABCDEF


def alike_below(key: Key) -> int:
    """Bins differ, and what slots know of the hash does not."""
    return stable_hash(key) & ~0xFFFFFFFF | 0x89ABCDEF


def alike_above(key: Key) -> int:
    """All in one bin, and all in other slots."""
    return stable_hash(key) & 0xFFFFFFFF | 0xFEDCBA98 << 32


def in_the_last_slots(key: Key) -> int:
    """Probing goes around the end of the slots, whatever their number."""
    return stable_hash(key) | 0xFFFFF8


HASHES: list[HashOf] = [stable_hash, all_alike, alike_below, alike_above, in_the_last_slots]


def keys_of(keys: Sequence[Key], hash_of: HashOf) -> Keys:
    offsets = np.zeros(len(keys) + 1, np.int32)
    np.cumsum([len(key or b"") for key in keys], out=offsets[1:])
    data = np.frombuffer(b"".join(key or b"" for key in keys), np.uint8)
    nulls = np.array([key is None for key in keys], np.bool_)
    hashes = np.array([hash_of(key) for key in keys], np.uint64)
    return Keys(hashes, offsets, data, nulls if nulls.any() else nulls[:0])


def key_list(offsets: Any, data: Any, nulls: Any) -> list[Key]:
    found: list[Key] = [data[start:end].tobytes() for start, end in pairwise(offsets)]
    return [None if len(nulls) and nulls[row] else key for row, key in enumerate(found)]


class Model:
    """A table, and the dictionary that it must be."""

    def __init__(self, hash_of: HashOf, bins: Bins = BINS) -> None:
        self.table = Table(bins, 1)
        self.expected: dict[Key, int] = {}
        self._hash_of = hash_of
        self._bins = bins

    def bin_of(self, key: Key) -> BinId:
        return BinId(self._hash_of(key) >> self._bins.shift)

    def install(self, states: dict[Key, int]) -> None:
        assert states.keys().isdisjoint(self.expected)
        words = np.array(list(states.values()), np.int64).view(np.uint64).reshape(-1, 1)
        self.table.install(keys_of(list(states), self._hash_of), words)
        self.expected |= states

    def fold(self, fold: Any, keys: Sequence[Key]) -> None:
        """Apply a fold to the table and, as Python runs it, to the dictionary: both give the same."""
        batch = pa.RecordBatch.from_arrays([pa.array(keys, pa.binary())], schema=SCHEMA)
        found = compiled(fold).apply(self.table, batch, keys_of(keys, self._hash_of))
        outputs = []
        for key in keys:
            state, given = fold(key, 1, self.expected.pop(key, 0))
            if state is not DISCARD:
                self.expected[key] = state
            outputs += given
        assert list(zip(*found.to_pydict().values(), strict=True)) == outputs

    def extract(self, bin_id: BinId, bytes_max: int) -> Iterator[dict[Key, int]]:
        """Take a bin out, in chunks of at most so many bytes, or of one key."""
        for offsets, data, nulls, states in self.table.extract(bin_id, bytes_max):
            keys = key_list(offsets, data, nulls)
            assert len(keys) == 1 or sum(len(key or b"") + 12 for key in keys) <= bytes_max
            chunk = dict(zip(keys, states[:, 0].view(np.int64).tolist(), strict=True))
            assert len(chunk) == len(keys)
            assert chunk == {key: self.expected.pop(key) for key in keys}
            assert {self.bin_of(key) for key in keys} == {bin_id}
            yield chunk

    def check(self) -> None:
        assert len(self.table) == len(self.expected)
        assert self.table.keys_per_bin() == Counter(map(self.bin_of, self.expected))

    def check_all(self) -> None:
        """Take everything out."""
        self.check()
        for bin_id in range(self._bins.count):
            for _ in self.extract(BinId(bin_id), 10_000):
                self.check()
            assert not [key for key in self.expected if self.bin_of(key) == bin_id]
        assert self.expected == {}
        assert len(self.table) == 0


KEYS = st.lists(st.sampled_from(UNIVERSE), max_size=20)
STEPS = st.one_of(
    st.tuples(st.just("install"), st.lists(st.sampled_from(UNIVERSE), max_size=20, unique=True)),
    st.tuples(st.just("install"), st.integers(0, 4).map(lambda part: UNIVERSE[part::5])),
    st.tuples(st.just("count"), KEYS),
    st.tuples(st.just("thrice"), KEYS),
    st.tuples(st.just("thrice"), KEYS.map(lambda keys: keys * 3)),
    st.tuples(st.just("move"), st.tuples(st.integers(0, BINS.count - 1), st.sampled_from([1, 60, 700, 10**6]), KEYS)),
)


@pytest.mark.parametrize("slots", [16, LARGE_SLOTS])
@pytest.mark.parametrize("hash_of", HASHES, ids=lambda hash_of: hash_of.__name__)
@given(steps=st.lists(STEPS, max_size=12))
def test_a_table_is_a_dictionary(hash_of: HashOf, slots: int, steps: list[tuple[str, Any]]):
    """Two tables that begin small, so that they grow all the time, or so large that loops look ahead; bins go to and
    fro while other keys change."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_module, "SLOTS_MIN", slots)
        patch.setattr(table_module, "ENTRIES_MIN", 2)
        patch.setattr(table_module, "ARENA_MIN", 16)
        patch.setattr(table_module, "_REHASHED_PER_RECORD", 1)
        patch.setattr(table_module, "REHASHED_AT_ONCE_MAX", 0)
        one, other = Model(hash_of), Model(hash_of)
        for step in steps:
            match step:
                case "install", keys:
                    one.install({key: 5 - at for at, key in enumerate(keys) if _nowhere(key, one, other)})
                case "count", keys:
                    one.fold(count, [key for key in keys if key not in other.expected])
                case "thrice", keys:
                    one.fold(thrice, [key for key in keys if key not in other.expected])
                case "move", (bin_id, bytes_max, keys):
                    one, other = other, one
                    for chunk in other.extract(BinId(bin_id), bytes_max):
                        one.install(chunk)
                        one.check()
                        elsewhere = [key for key in keys if one.bin_of(key) != bin_id and key not in one.expected]
                        other.fold(count, elsewhere)
                        other.check()
            one.check()
            other.check()
        one.check_all()
        other.check_all()


def test_a_key_that_was_seen_ahead_and_then_discarded_is_new(monkeypatch: pytest.MonkeyPatch):
    """Also if others have come into its place meanwhile."""
    monkeypatch.setattr(table_module, "SLOTS_MIN", LARGE_SLOTS)
    model = Model(stable_hash)
    model.install({b"ab": 2, b"cd": 2, None: 2, b"long enough for the arena": 2})
    known = list(model.expected)
    model.fold(thrice, [*known, *known, b"ef", b"gh", *known, b"ef", *known, *known])
    model.check_all()


def _nowhere(key: Key, *models: Model) -> bool:
    return all(key not in model.expected for model in models)


@pytest.mark.parametrize("hash_of", HASHES, ids=lambda hash_of: hash_of.__name__)
def test_a_hash_collision_never_merges_two_keys(hash_of: HashOf):
    model = Model(hash_of)
    model.install({key: 100 * at for at, key in enumerate(UNIVERSE)})
    model.fold(count, UNIVERSE)
    assert model.expected == {key: 100 * at + 1 for at, key in enumerate(UNIVERSE)}
    model.fold(thrice, UNIVERSE[3::2])
    model.fold(count, UNIVERSE)
    model.check_all()


def test_a_null_is_no_empty_key_even_if_they_hash_alike():
    model = Model(all_alike)
    keys: list[Key] = [None, b"", b"\0", bytes(8), bytes(9), b"\x09"]
    model.fold(count, [key for at, key in enumerate(keys) for _ in range(at + 1)])
    assert model.expected == {key: at + 1 for at, key in enumerate(keys)}
    model.check_all()


@pytest.mark.parametrize("seed", range(3))
def test_a_table_that_grows_while_it_is_swept_forgets_nothing(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Keys come and go while every doubling is under way for long."""
    monkeypatch.setattr(table_module, "ENTRIES_MIN", 16)
    monkeypatch.setattr(table_module, "_REHASHED_PER_RECORD", 1)
    monkeypatch.setattr(table_module, "REHASHED_AT_ONCE_MAX", 0)
    random = Random(seed)
    model, sizes, batches_swept = Model(stable_hash), set(), 0
    for batch in range(300):
        fresh: list[Key] = [b"%d/%d" % (batch, n) * random.choice((1, 1, 1, 3, 40)) for n in range(40)]
        model.fold(count, fresh)
        batches_swept += len(model.table.view().old) > 0
        sizes.add(len(model.table.view().slots))
        known = random.sample(list(model.expected), 20)
        model.fold(thrice, [*known, *known, *fresh[:5]])
        if batch % 20 == 0:
            model.check()
    assert sizes == {1024, 2048, 4096, 8192, 16384, 32768}
    assert batches_swept > 100
    model.fold(count, list(model.expected))
    model.check_all()


def test_a_table_does_not_grow_when_keys_come_and_go():
    """Slots, entries and blocks of the arena are used again, by other keys of the same sizes."""
    model = Model(stable_hash)
    model.install({b"stays": 1})
    tops, sizes = set(), set()
    for turn in range(60):
        keys: list[Key] = [bytes([turn, at]) + b"x" * (size - 2) for at, size in enumerate(SIZES * 4) if size >= 7]
        model.fold(thrice, keys)
        model.check()
        model.fold(count, keys[::3])
        for key in keys:
            model.fold(thrice, [key] * (3 - model.expected.get(key, 0)))
        assert model.expected == {b"stays": 1}
        tops.add(int(model.table.view().meta[ARENA_TOP]))
        sizes.add((len(model.table.view().slots), len(model.table.view().entries), len(model.table.view().arena)))
    assert len(tops) == 1
    assert len(sizes) == 1
    model.check_all()


def test_blocks_that_are_used_again_do_not_overlap():
    random = Random(7)
    model, turns = Model(stable_hash), 0
    while turns < 60:
        turns += 1
        keys: list[Key] = [random.randbytes(random.choice(SIZES) + 9) for _ in range(12)]
        model.install(dict.fromkeys(keys, 2))
        model.fold(thrice, random.sample(list(model.expected), 10))
    model.fold(count, list(model.expected))
    model.check_all()


def test_a_table_from_which_all_bins_were_taken_is_as_new():
    model, new = Model(stable_hash), Table(BINS, 1).nbytes
    model.install({b"key %d" % n: n for n in range(5000)})
    assert model.table.nbytes > new
    model.check_all()
    assert model.table.nbytes == new
    model.fold(count, [b"key 7", b"key 7"])
    model.check_all()


@pytest.mark.parametrize("bins", [1, 2, 256])
def test_keys_are_in_the_bins_of_rows(bins: int):
    model = Model(stable_hash, Bins(bins))
    keys: list[Key] = [None, b"", *(b"%d" % n for n in range(500))]
    model.fold(count, keys)
    assert model.table.keys_per_bin() == Counter(Bins(bins).of(key) for key in keys)
    model.check_all()


def test_a_million_short_keys_take_less_than_80_bytes_each():
    table = Table(Bins(256), 1)
    numbers = np.arange(10**6)
    batch = pa.record_batch({"n": numbers})
    keys = KeyColumns.of(batch.schema, "n", "test").keys(batch)
    for start in range(0, 10**6, 10**5):
        part = slice(start, start + 10**5)
        offsets = keys.offsets[start : start + 10**5 + 1]
        table.install(Keys(keys.hashes[part], offsets, keys.data, keys.nulls), numbers[part, None].view(np.uint64))
        assert table.nbytes / len(table) < 80
    assert sum(table.keys_per_bin().values()) == len(table) == 10**6
