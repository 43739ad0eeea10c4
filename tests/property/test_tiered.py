"""Tables with a database behind them against a dictionary, with hardly any memory: keys come and go all the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.wire.columns import decode_batch
from operators.columns.fold import CompiledFold
from operators.columns.loop import Field
from operators.columns.stateful_state_machine import CompiledStateMachine
from operators.stateful.fold import DISCARD
from routing.bins import BinId, Bins
from routing.columns.keys import KeyColumns, byte_strings, nulls_of
from routing.columns.table import tiered
from routing.options import BinOptions
from tests.cramped import CrampedMaker

BINS = Bins(4)
STATE = pa.schema({"total": pa.int64(), "mean": pa.float64()})
WORDS = [
    "",
    "a",
    "tea",
    "tea\0",
    "12345678",
    "123456789",
    "x" * 100,
    "x" * 99 + "y",
    None,
    *(f"key {n}" for n in range(12)),
]
NUMBERS = [None, 0, -1, 1, 2**62, -(2**63), *range(100, 112)]

UNIVERSES: dict[str, tuple[pa.Schema, list[Any]]] = {
    "words": (pa.schema({"k": pa.string()}), WORDS),
    "numbers": (pa.schema({"k": pa.int64()}), NUMBERS),
    "pairs": (
        pa.schema({"k": pa.string(), "l": pa.int64()}),
        [*zip(WORDS, NUMBERS, strict=False), ("", None), (None, 0)],
    ),
    "large words": (pa.schema({"k": pa.large_string()}), WORDS),
    "fractions": (pa.schema({"k": pa.float64()}), [None, 0.0, 1.5, -2.0, 1e300, *(n / 7 for n in range(12))]),
    "days": (pa.schema({"k": pa.date32()}), [None, *(date(2020, 1, 1 + n) for n in range(20))]),
    "encoded": (pa.schema({"k": pa.dictionary(pa.int32(), pa.string())}), WORDS),
}
PER_EPOCH = ["words", "numbers", "pairs"]


def thrice(key: Any, n: int, state: Any) -> Any:
    """Forgets a key that it has seen three times."""
    total, mean = state
    total += n
    mean = mean / 2 + total
    if total >= 3:
        return DISCARD, [(key, total, mean)]
    return (total, mean), [(key, total, mean)]


def thrice_of_pairs(key: Any, n: int, state: Any) -> Any:
    total, mean = state
    one, other = key
    total += n
    mean = mean / 2 + total
    if total >= 3:
        return DISCARD, [(one, other, total, mean)]
    return (total, mean), [(one, other, total, mean)]


class Machine:
    """An operator on one worker."""

    def __init__(self, kind: str, options: BinOptions, *, per_epoch: bool) -> None:
        schema, _ = UNIVERSES[kind]
        self.schema = schema
        self.key = KeyColumns.of(schema, schema.names, "test")
        fold = CompiledFold(
            thrice_of_pairs if kind == "pairs" else thrice,
            key=self.key,
            values=[],
            state=[Field(field.name, field.type) for field in STATE],
            initial=(0, 0.0),
            output=pa.schema([*schema, *STATE]),
            per_epoch=per_epoch,
        )
        self.logic = CompiledStateMachine(fold, self.key, STATE, options)

    def apply(self, time: int, keys: list[Any]) -> list[Any]:
        rows = [key if len(self.schema) > 1 else (key,) for key in keys]
        arrays = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(self.schema)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return self.keyed(self.logic.apply(0, time, batch))

    def on_due(self, time: int) -> list[Any]:
        return self.keyed(self.logic.on_due(time)) if self.logic.timers.any_at(time) else []

    def entries(self, chunk: bytes) -> dict[Any, Any]:
        batch = decode_batch(chunk)
        keys = self.key.decode(*byte_strings(batch.column(0)), nulls_of(batch.column(0)))
        return dict(
            self.keyed(pa.RecordBatch.from_arrays([*keys, *batch.columns[1:]], [*self.schema.names, *STATE.names]))
        )

    def keyed(self, batch: pa.RecordBatch) -> list[Any]:
        """Rows as a key and the rest."""
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        width = len(self.schema)
        return [(row[:width] if width > 1 else row[0], row[width:]) for row in rows]


class Cluster:
    """Two workers with a database behind their tables, and one without; and the dictionary that they must be."""

    def __init__(self, kind: str, maker: CrampedMaker, *, per_epoch: bool) -> None:
        stores = [BinOptions(BINS.count, maker), BinOptions(BINS.count, maker), BinOptions(BINS.count)]
        self.machines = [Machine(kind, options, per_epoch=per_epoch) for options in stores]
        self.owners = [0, 1, 2, 0]
        self.expected: dict[Any, Any] = {}
        self._per_epoch = per_epoch
        self._given: dict[Any, Any] = {}
        self._time = 0

    def apply(self, keys: list[Any]) -> None:
        for worker, machine in enumerate(self.machines):
            mine = [key for key in keys if self.owners[BINS.of(key)] == worker]
            outputs = [(key, self._fold(key)) for key in mine]
            found = machine.apply(self._time, mine)
            if self._per_epoch:
                assert found == []
                self._given.update(outputs)
            else:
                assert found == outputs

    def end_epoch(self) -> None:
        found = [row for machine in self.machines for row in machine.on_due(self._time)]
        assert len(found) == len(self._given)
        assert dict(found) == self._given
        self._given = {}
        self._time += 1

    def reset(self) -> None:
        """Whatever an example before this one, that failed, has left."""
        for machine in self.machines:
            machine.on_due(self._time)
            for bin_id in machine.logic.bin_state.bins():
                assert list(machine.logic.bin_state.extract(bin_id, 10**6))
        self.expected, self._given = {}, {}

    def move(self, bin_id: BinId, to: int, chunk_bytes_max: int, keys: list[Any]) -> None:
        """While a bin is on its way, the keys of others are applied."""
        self.end_epoch()
        sender, receiver = self.machines[self.owners[bin_id]], self.machines[to]
        others = [key for key in keys if BINS.of(key) != bin_id]
        for chunk in sender.logic.bin_state.extract(bin_id, chunk_bytes_max):
            receiver.logic.bin_state.install(bin_id, chunk)
            self.apply(others)
        self.owners[bin_id] = to

    def check(self) -> None:
        found = Counter[BinId]()
        for machine in self.machines:
            found.update(machine.logic.bin_state.bins())
        if not self._per_epoch:  # else keys that were forgotten are there until the epoch ends
            assert found == Counter(map(BINS.of, self.expected))

    def empty(self) -> None:
        """Take everything out."""
        self.end_epoch()
        self.check()
        found: dict[Any, Any] = {}
        for bin_id, owner in enumerate(self.owners):
            for chunk in self.machines[owner].logic.bin_state.extract(BinId(bin_id), 300):
                entries = self.machines[owner].entries(chunk)
                assert not entries.keys() & found.keys()
                assert {BINS.of(key) for key in entries} == {bin_id}
                found |= entries
        assert found == self.expected
        assert [machine.logic.bin_state.bins() for machine in self.machines] == [{}, {}, {}]
        self.expected = {}

    def _fold(self, key: Any) -> Any:
        state, [output] = thrice(key, 1, self.expected.pop(key, (0, 0.0)))
        if state is not DISCARD:
            self.expected[key] = state
        return output[1:]


@pytest.fixture(scope="module")
def clusters() -> Iterator[Any]:
    """One for each kind of key: databases are opened once, and emptied by each example."""
    with ExitStack() as stack:
        maker = CrampedMaker()

        @cache
        def make(kind: str, per_epoch: bool) -> Cluster:
            cluster = Cluster(kind, maker, per_epoch=per_epoch)
            for machine in cluster.machines:
                stack.callback(machine.logic.bin_state.close)
            return cluster

        yield make


def steps(universe: list[Any]) -> Any:
    keys = st.lists(st.sampled_from(universe), max_size=12)
    return st.one_of(
        st.tuples(st.just("apply"), keys),
        st.tuples(st.just("apply"), st.just(universe)),
        st.tuples(st.just("epoch")),
        st.tuples(
            st.just("move"), st.integers(0, BINS.count - 1), st.integers(0, 2), st.sampled_from([1, 70, 10**6]), keys
        ),
    )


@pytest.mark.parametrize(
    ("kind", "per_epoch"), [*((kind, False) for kind in UNIVERSES), *((kind, True) for kind in PER_EPOCH)]
)
@given(data=st.data())
def test_a_table_with_a_database_behind_it_is_a_dictionary(clusters: Any, kind: str, per_epoch: bool, data: Any):
    cluster, universe = clusters(kind, per_epoch), UNIVERSES[kind][1]
    cluster.reset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiered, "EXTRA_KEYS", data.draw(st.sampled_from([1, 3, 100])))
        patch.setattr(tiered, "ROWS_MIN", data.draw(st.sampled_from([1, 4, 100])))
        for step in data.draw(st.lists(steps(universe), max_size=10)):
            match step:
                case "apply", keys:
                    cluster.apply(keys)
                    cluster.check()
                case ("epoch",):
                    cluster.end_epoch()
                case "move", bin_id, to, chunk_bytes_max, keys:
                    if to != cluster.owners[bin_id]:
                        cluster.move(BinId(bin_id), to, chunk_bytes_max, keys)
                        cluster.check()
        cluster.empty()
