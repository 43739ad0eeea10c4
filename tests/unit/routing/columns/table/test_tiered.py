"""Tables with a database behind them: what they keep in memory, what they share it with, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from framework.errors import GraphError
from framework.launch.execute import example
from operators import to_stream
from operators.columns import aggregates as agg
from routing.bins import BinId, Bins
from routing.columns.keys import KeyColumns, Keys
from routing.columns.table import tiered
from routing.columns.table.db_keys import missing_rows
from routing.columns.table.table import Table
from routing.columns.table.tiered import TieredTable
from routing.options import BinOptions
from routing.state.errors import StoreCorrupt
from routing.state.memory import MemoryStore
from routing.state.rocks import RocksMaker, RocksStore
from routing.state.rocks_budget import MEMORY_BYTES_MIN, MIB, OVERHEAD_BYTES
from tests.cramped import CrampedMaker

BINS = Bins(16)
SCHEMA = pa.schema({"k": pa.int64()})
KEY = KeyColumns.of(SCHEMA, "k", "test")

Make = Callable[..., TieredTable]


@dataclass
class FixedBudget:
    """What a test lets a table use, whatever other tables there are."""

    table_bytes: int


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes tables of states that are one word, with a database behind them."""
    with ExitStack() as stack:

        def make(
            budget: FixedBudget, maker: RocksMaker | None = None, *, epoch: tiered.Epoch | None = None
        ) -> TieredTable:
            database, _ = (maker or CrampedMaker()).behind_table()
            made = TieredTable(Table(BINS, 1 + (epoch is not None)), BINS, database, budget, epoch)
            stack.callback(made.close)
            return made

        yield make


def keys_of(numbers: Any) -> Keys:
    return KEY.keys(pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], schema=SCHEMA))


def install(table: TieredTable, numbers: Any) -> None:
    states = np.zeros((len(numbers), table.state_words), np.uint64)
    states[:, 0] = np.asarray(numbers)
    table.install(keys_of(numbers), states)


def taken(table: TieredTable, bin_id: BinId, bytes_max: int = 1000) -> dict[int, int]:
    found: dict[int, int] = {}
    for offsets, data, nulls, states in table.extract(bin_id, bytes_max):
        [column] = KEY.decode(offsets, data, nulls)
        found.update(zip(column.to_pylist(), states[:, 0].tolist(), strict=True))
    return found


def test_an_entry_is_as_large_as_its_words_and_its_key_in_the_arena(make: Make, tmp_path: Path):
    table = make(FixedBudget(MIB), RocksStore.maker(tmp_path, MEMORY_BYTES_MIN))
    assert table.entry_bytes == 0
    install(table, range(1000))
    assert table.entry_bytes == table.table.entry_bytes
    assert 8 * (1 + table.state_words) <= table.entry_bytes <= 8 * (4 + table.state_words)


def test_a_table_stays_within_its_share_however_many_keys_there_are(make: Make, tmp_path: Path):
    """But for a batch, and for what a small table grows by."""
    table = make(FixedBudget(MIB), RocksStore.maker(tmp_path, MEMORY_BYTES_MIN))
    for start in range(0, 100_000, 1000):
        install(table, range(start, start + 1000))
        assert table.table.nbytes <= MIB * 9 // 8
    assert 10_000 < len(table.table) < 20_000
    assert sum(table.keys_per_bin().values()) == 100_000
    dice = np.random.default_rng(1)
    for _ in range(100):
        keys = keys_of(dice.integers(0, 100_000, 1000))
        table.fetch(keys)
        assert len(missing_rows(table.table, keys, np.ones(BINS.count, np.int64))) == 0
        table.spill()
        assert table.table.nbytes <= MIB * 9 // 8
    found: dict[int, int] = {}
    for bin_id in list(table.keys_per_bin()):
        found |= taken(table, bin_id)
    assert found == {number: number for number in range(100_000)}
    assert table.keys_per_bin() == {}


def test_bins_are_written_out_whole_and_in_turn(make: Make, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiered, "EXTRA_KEYS", 10)
    budget = FixedBudget(MIB)
    table = make(budget)
    install(table, range(320))
    budget.table_bytes = 0
    left = []
    for _ in range(100):
        table.spill()
        left.append(table.table.keys_per_bin())
    assert [len(some) for some in left] == sorted((len(some) for some in left), reverse=True)
    assert left[-1] == {}
    full = [set(some) for some in left if some]
    assert all(bins == set(range(min(bins), 16)) for bins in full)


def test_a_bin_that_is_begun_is_finished_and_no_other(make: Make, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiered, "EXTRA_KEYS", 3)
    budget = FixedBudget(MIB)
    table = make(budget)
    install(table, range(320))
    budget.table_bytes = 0
    table.spill()
    budget.table_bytes = MIB
    for _ in range(100):
        table.spill()
    assert set(table.table.keys_per_bin()) == set(range(1, 16))


def test_keys_of_the_epoch_under_way_stay(make: Make):
    table = make(FixedBudget(0), epoch=lambda: 5)
    states = np.array([[1, 4 << 32], [2, 5 << 32], [3, ~(5 << 32) & (2**64 - 1)], [4, 0]], np.uint64)
    table.install(keys_of([1, 2, 3, 4]), states)
    assert len(table.table) == 2
    table.fetch(keys_of([1]))
    assert len(table.table) == 3
    found = {key: state for bin_id in list(table.keys_per_bin()) for key, state in taken(table, bin_id).items()}
    assert found == {1: 1, 2: 2, 3: 3, 4: 4}


def test_a_bin_is_whole_when_some_of_it_is_written_out_while_it_leaves(make: Make):
    """Between two pieces of it that go to another worker, others of its keys go from the table to the database."""
    budget = FixedBudget(MIB)
    table = make(budget)
    install(table, range(1000))
    budget.table_bytes = 0
    bin_id, count = BinId(3), table.keys_per_bin()[BinId(3)]
    pieces = table.extract(bin_id, 100)
    found = [len(states) for *_, states in islice(pieces, 2)]
    for _ in range(20):
        table.spill()
    found += [len(states) for *_, states in pieces]
    assert sum(found) == count
    assert bin_id not in table.keys_per_bin()


@pytest.mark.parametrize("emit", ["record", "epoch"])
def test_outputs_are_the_same_with_and_without_a_database(emit: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiered, "ROWS_MIN", 300)
    dice = Random(1)
    rows = [(f"key {dice.randrange(500)}", dice.randrange(10)) for _ in range(3000)]

    def run(options: BinOptions) -> Any:
        def build(scope: Any) -> Any:
            pairs = to_stream(scope, rows).to_columns({"k": str, "n": int})
            results = {"count": agg.count(), "sum": agg.sum("n"), "mean": agg.mean("n"), "last": agg.last("n")}
            return pairs.stateful_aggregate(results, key="k", emit=emit, bins=options).extract()

        return example(build).rows()

    with_database = run(BinOptions(16, CrampedMaker()))
    assert len(with_database) == (3000 if emit == "record" else len({key for key, _ in rows}))
    assert with_database == run(BinOptions(16))


def test_a_store_that_is_not_for_columns_is_refused():
    def build(scope: Any) -> Any:
        words = to_stream(scope, ["tea"]).to_columns({"word": str})
        return words.stateful_aggregate({"n": agg.count()}, key="word", bins=BinOptions(store=lambda b: MemoryStore(b)))

    with pytest.raises(
        GraphError, match="operator 'stateful_aggregate' works on columns, and cannot use the store that"
    ):
        example(build)


def test_the_directory_goes_with_the_table(tmp_path: Path):
    maker = RocksStore.maker(tmp_path, MEMORY_BYTES_MIN)
    table = TieredTable(Table(BINS, 1), BINS, *maker.behind_table(), None)
    assert len(list(tmp_path.glob("store-*"))) == 1
    table.close()
    table.close()
    assert list(tmp_path.glob("store-*")) == []


def test_tables_and_stores_share_a_budget(tmp_path: Path):
    maker = copy(RocksStore.maker(tmp_path, 128 * MIB))
    store = maker(BINS)
    first, budget = maker.behind_table()
    room = 128 * MIB - 3 * OVERHEAD_BYTES
    assert budget.table_bytes == room // 4
    second, same = maker.behind_table()
    assert same is budget
    room = 128 * MIB - 4 * OVERHEAD_BYTES
    assert budget.table_bytes == room // 3 // 2
    for one in (store, first, second):
        one.close()


def test_a_table_that_is_closed_gives_its_share_back(tmp_path: Path):
    maker = RocksStore.maker(tmp_path, 128 * MIB)
    first, budget = maker.behind_table()
    alone = budget.table_bytes
    first.close()
    second, _ = maker.behind_table()
    assert budget.table_bytes == alone
    second.close()


def test_tables_have_some_memory_however_many_there_are(tmp_path: Path):
    maker = RocksStore.maker(tmp_path, MEMORY_BYTES_MIN)
    made = [maker.behind_table() for _ in range(6)]
    assert {budget.table_bytes for _, budget in made} == {MEMORY_BYTES_MIN // 8 // 6}
    for database, _ in made:
        database.close()


def test_damage_is_told(make: Make, tmp_path: Path):
    table = make(FixedBudget(0), RocksStore.maker(tmp_path, MEMORY_BYTES_MIN))
    install(table, range(5000))
    for _ in range(20):
        table.spill()
    table._database._db.flush()
    for file in tmp_path.glob("store-*/rocks/*.sst"):
        size = file.stat().st_size
        with file.open("r+b") as opened:
            opened.write(b"junk" * (size // 8))
    with pytest.raises(StoreCorrupt, match="is damaged"):
        table.fetch(keys_of(range(5000)))
