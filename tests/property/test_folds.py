"""One fold on rows and, compiled, on columns: the same outputs at the same times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.dataflow.scope import Scope
from framework.launch.config import Config
from framework.launch.execute import example, execute
from framework.worker.worker import Worker
from operators import DISCARD, iterator_source
from operators.columns.fold import CompiledFold
from operators.columns.loop import number_fields
from operators.schema import arrow_schema
from routing.bins import Bins
from routing.columns.keys import KeyColumns
from routing.columns.table.table import Table
from tests.cramped import small_dictionaries, small_regions
from tests.unit.operators.moving import run_moving

FEWER = settings(max_examples=settings().max_examples // 4)
"""For tests of each fold."""

STEP = 7
RATES = (0.5, 0.25)


def count(key: Any, n: int, total: int) -> Any:
    total += n
    return total, [(key, total)]


def forgetful(key: Any, n: int, total: int) -> Any:
    total += 1
    if total == 3:
        return DISCARD, [(key, total)]
    return total, [(key, total)]


def forgets_pairs(key: Any, n: int, state: tuple[int, float]) -> Any:
    """Forgets a state of several columns, and says nothing."""
    seen, total = state
    if seen >= 2:
        return DISCARD, []
    state = (seen + 1, total + n)
    return state, [(key, total)]


def every_third(key: Any, n: int, total: int) -> Any:
    total += 1
    return total, [(key, total)] if total % 3 == 0 else []


def one_or_two(key: Any, n: int, total: int) -> Any:
    total += n
    if n > 0:
        return total, [(key, total), (key, -total)]
    elif n < -10:
        return total, []
    return total, [(key, 0)]


def mean(key: Any, value: tuple[float, bool], state: tuple[int, float, bool]) -> Any:
    x, good = value
    seen, total, always = state
    seen += 1
    if good:
        total += x
    always = always and good
    return (seen, total, always), [(key, seen, total / seen, always, not good)]


def unpacked(key: Any, n: int, total: int) -> Any:
    user, item = key
    total += n
    return total, [(item, total, user)]


def indexed(key: Any, n: int, total: int) -> Any:
    total += n * key[1]
    return total + key[1], [(key[0], total * 2 - key[1], key[1])]


def unpacked_number(key: Any, n: int, total: int) -> Any:
    _, number, other = key
    if number > 0:
        total += number * n
    return total, [(total + number - other,)[0]]


def by_number(key: int, n: int, total: int) -> Any:
    return total + key * n, [(key, total - key, key % 3 == 0)]


def changed(key: int, n: int, total: int) -> Any:
    key = key + 1
    return total + n, [(key, total)]


def part_changed(key: Any, n: int, total: int) -> Any:
    user, item = key
    item -= n
    return total + item, [(user, item, total)]


def square(key: float, n: int, total: float) -> Any:
    return total + key * key, [total / 3 - key * 0.1 * key]


def clamp(x: int, low: int, high: int) -> int:
    return max(low, min(x, high))


def stepped(x: int) -> int:
    return clamp(x * STEP, -100, 100)


def with_helpers(key: Any, n: int, total: float) -> Any:
    total = total * RATES[0] + stepped(n) * RATES[1]
    return total, [(key, total)]


def divided(key: Any, n: int, state: tuple[int, int]) -> Any:
    quotient, rest = state
    divisor = STEP if n % 2 == 0 else -STEP
    quotient += n // divisor
    rest += n % divisor
    return (quotient, rest), [(key, quotient, rest, min(quotient, rest), max(n, rest), abs(n))]


def rooted(key: Any, x: float, total: float) -> Any:
    total += math.sqrt(abs(x))
    return total, [(key, total, x // 0.75, x % -0.3, min(x, total), max(x, 0.5), math.floor(x))]


def looped(key: Any, n: int, total: int) -> Any:
    """A loop, `break`, a conditional expression, and truth values."""
    steps = 0
    for at in range(abs(n) % 10):
        if at * at > 20 or (n < 0 and at > 2):
            break
        steps += at
    while steps > 5:
        steps -= 2
    total += steps if n % 2 else -steps
    return total, [(key, total, steps == 5)]


@dataclass(frozen=True)
class Case:
    """A fold, and what it is applied to."""

    fold: Callable[[Any, Any, Any], Any]
    key: dict[str, Any]
    initial: Any
    output: dict[str, Any]
    state: dict[str, Any] = field(default_factory=lambda: {"total": int})
    value: dict[str, Any] = field(default_factory=lambda: {"n": int})

    def columns(self, rows: Any, **options: Any) -> Any:
        """What becomes of flat records in columns, as records."""
        return rows.to_columns({**self.key, **self.value}).stateful_state_machine(
            self.fold,
            key=_one_or_all(list(self.key)),
            value=_one_or_all(list(self.value)),
            state=self.state,
            initial=self.initial,
            output=self.output,
            **options,
        )

    def rows(self, rows: Any, **options: Any) -> Any:
        """The same on rows."""
        size = len(self.key)
        pairs = rows.map(lambda row: (_one_or_all(row[:size]), _one_or_all(row[size:])))
        return pairs.stateful_state_machine(self.fold, initial=self.initial, **options)

    def records(self) -> st.SearchStrategy[tuple[Any, ...]]:
        """Flat records: the columns of the key, of which there are few, then those of the value."""
        keys = [st.sampled_from(KEYS[kind]) for kind in self.key.values()]
        return st.tuples(*keys, *(VALUES[kind] for kind in self.value.values()))

    def some_records(self, random: Random, count: int) -> list[tuple[Any, ...]]:
        keys = [KEYS[kind] for kind in self.key.values()]
        values = [SOME[kind] for kind in self.value.values()]
        return [tuple(random.choice(one) for one in (*keys, *values)) for _ in range(count)]


def _one_or_all(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else tuple(parts)


KEYS: dict[Any, list[Any]] = {
    str: ["tea", "", "milk", "a longer key than eight bytes", None],
    int: [0, 1, -5, 2**40],
    bool: [True, False],
    bytes: [b"", b"\0", b"x" * 20, None],
    date: [date(1969, 1, 1), date(2026, 3, 1), None],
    pa.float32(): [0.1, -2.5, 3.0],
    pa.int16(): [300, -300, 7],
    pa.uint32(): [0, 7, 2**32 - 1],
    pa.uint64(): [0, 2**64 - 1],
}
SMALL = st.integers(-(10**6), 10**6)
FINITE = st.floats(-1e6, 1e6)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    int: SMALL,
    float: FINITE,
    bool: st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.float32(): st.floats(-1000, 1000, width=32),
}
SOME: dict[Any, list[Any]] = {
    int: [0, 1, -1, 5, -12, 10**6],
    float: [0.0, 0.1, -2.5, 1e6],
    bool: [True, False],
    pa.int8(): [-128, 127, 3],
    pa.uint16(): [0, 2**16 - 1],
    pa.float32(): [0.1, -2.5],
}
for _kind, _some in {pa.float32(): [KEYS, SOME]}.items():
    for _values in _some:
        _values[_kind] = [pa.scalar(value, _kind).as_py() for value in _values[_kind]]

WORD = {"word": str}
TOTALS = {"word": str, "total": int}
CASES = {
    "count": Case(count, WORD, 0, TOTALS),
    "count of bytes": Case(count, {"k": bytes}, -3, {"k": bytes, "total": int}),
    "count of days": Case(count, {"day": date}, 0, {"day": date, "total": int}),
    "count of large numbers": Case(count, {"k": pa.uint64()}, 0, {"k": pa.uint64(), "total": int}),
    "count of bytes of one octet": Case(count, WORD, 0, TOTALS, value={"n": pa.int8()}),
    "count of unsigned": Case(count, WORD, 0, TOTALS, value={"n": pa.uint16()}),
    "forgetful": Case(forgetful, WORD, 0, TOTALS),
    "forgets pairs": Case(
        forgets_pairs, WORD, (0, 0.5), {"word": str, "total": float}, state={"seen": int, "total": float}
    ),
    "every third": Case(every_third, WORD, 0, TOTALS),
    "one or two": Case(one_or_two, WORD, 0, TOTALS),
    "mean": Case(
        mean,
        WORD,
        (0, 0.0, True),
        {"word": str, "seen": int, "mean": float, "always": bool, "bad": bool},
        state={"seen": int, "total": float, "always": bool},
        value={"x": float, "good": bool},
    ),
    "mean of singles": Case(
        mean,
        WORD,
        (0, 0.0, True),
        {"word": str, "seen": int, "mean": float, "always": bool, "bad": bool},
        state={"seen": int, "total": float, "always": bool},
        value={"x": pa.float32(), "good": bool},
    ),
    "unpacked": Case(unpacked, {"user": str, "item": bytes}, 0, {"item": bytes, "total": int, "user": str}),
    "unpacked numbers": Case(unpacked, {"user": int, "item": bool}, 0, {"item": bool, "total": int, "user": int}),
    "indexed": Case(indexed, {"user": str, "item": int}, 0, {"user": str, "total": int, "item": int}),
    "unpacked number": Case(unpacked_number, {"user": str, "a": pa.int16(), "b": int}, 0, {"total": int}),
    "by number": Case(by_number, {"k": int}, 1, {"k": int, "total": int, "third": bool}),
    "by short number": Case(by_number, {"k": pa.int16()}, 1, {"k": pa.int16(), "total": int, "third": bool}),
    "by unsigned number": Case(by_number, {"k": pa.uint32()}, 1, {"k": pa.uint32(), "total": int, "third": bool}),
    "by truth": Case(by_number, {"k": bool}, 1, {"k": bool, "total": int, "third": bool}),
    "changed": Case(changed, {"k": int}, 0, {"k": int, "total": int}),
    "part changed": Case(part_changed, {"user": str, "item": int}, 0, {"user": str, "item": int, "total": int}),
    "square": Case(square, {"k": pa.float32()}, 0.0, {"x": float}, state={"total": float}),
    "with helpers": Case(with_helpers, WORD, 0.0, {"word": str, "total": float}, state={"total": float}),
    "divided": Case(
        divided,
        WORD,
        (0, 0),
        {"word": str, **dict.fromkeys(["quotient", "rest", "least", "most", "size"], int)},
        state={"quotient": int, "rest": int},
    ),
    "rooted": Case(
        rooted,
        WORD,
        0.0,
        {"word": str, **dict.fromkeys(["total", "quotient", "rest", "least", "most"], float), "floor": int},
        state={"total": float},
        value={"x": float},
    ),
    "looped": Case(looped, WORD, 0, {"word": str, "total": int, "five": bool}),
}
BY_NAME = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def both(scope: Scope, case: Case, epochs: list[tuple[int, list[Any]]]) -> tuple[Any, Any]:
    return (
        case.columns(iterator_source(scope, epochs)).extract(),
        case.rows(iterator_source(scope, epochs)).extract(),
    )


def shown(by_time: dict[Any, list[Any]]) -> dict[Any, list[str]]:
    """By their texts: 1, 1.0 and True are not the same."""
    return {time: sorted(map(repr, rows)) for time, rows in by_time.items()}


@BY_NAME
@FEWER
@given(data=st.data())
def test_a_fold_gives_the_same_on_rows_and_on_columns(case: Case, data: st.DataObject):
    parts = data.draw(st.lists(st.lists(case.records(), min_size=1, max_size=12), max_size=4))
    epochs = list(enumerate(parts))
    columns, rows = example(lambda scope: both(scope, case, epochs))
    assert shown(columns.by_time()) == shown(rows.by_time())


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("nulls", [True, False], ids=["some null", "in dictionaries"])
@BY_NAME
def test_a_fold_gives_the_same_on_several_workers(case: Case, nulls: bool, workers: int):
    """One worker sends, so that the records of a key have an order. Without nulls, strings travel in dictionaries."""
    random = Random(workers)
    records = [case.some_records(random, 30) for _ in range(4)]
    epochs = [(epoch, [row for row in some if nulls or None not in row]) for epoch, some in enumerate(records)]

    def main(worker: Worker) -> tuple[Any, Any]:
        with worker.dataflow() as scope:
            return both(scope, case, epochs if worker.index == 0 else [])

    with small_dictionaries(), small_regions():
        results = execute(main, Config(threads=workers))
    columns, rows = (merged_texts([each[part] for each in results]) for part in (0, 1))
    assert columns == rows
    assert sum(map(len, rows.values())) > 10


def merged_texts(results: list[Any]) -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    for result in results:
        for time, rows in result.by_time().items():
            found.setdefault(time, []).extend(map(repr, rows))
    return {time: sorted(found[time]) for time in sorted(found)}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["forgetful", "unpacked", "by number"])
def test_a_fold_gives_the_same_while_bins_move(name: str, seed: int):
    """Values are alike, so that the order of records that several workers send does not matter."""
    case, random = CASES[name], Random(seed)
    feed = [[[(*row[: len(case.key)], 1) for row in case.some_records(random, 20)] for _ in range(6)]]
    on_columns = run_moving(
        lambda streams, options: [case.columns(streams[0], **options).to_rows()], feed, seed=seed, columns=True
    )
    on_rows = run_moving(lambda streams, options: [case.rows(streams[0], **options)], feed, seed=seed)
    assert on_columns.on_bins == on_columns.by_hash == on_rows.on_bins


def test_bins_of_columns_move_in_the_test_above():
    case = CASES["count"]
    feed = [[[("tea", 1), ("milk", 1)]] * 6]
    assert any(
        run_moving(
            lambda streams, options: [case.columns(streams[0], **options).to_rows()], feed, seed=seed, columns=True
        ).bins_shipped
        for seed in range(4)
    )


def in_dictionary(random: Random, keys: list[str | None]) -> pa.DictionaryArray:
    """Keys in a dictionary in which some stand twice, and some that no row has."""
    values = [*dict.fromkeys(keys), "tea", "unused", "also unused and longer than eight bytes"]
    random.shuffle(values)
    codes = [random.choice([code for code, value in enumerate(values) if value == key]) for key in keys]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int16()), pa.array(values, pa.string()))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", ["count", "forgetful", "forgets pairs", "every third", "one or two"])
def test_keys_in_dictionaries_are_those_that_they_stand_for(name: str, seed: int):
    """Keys come, are forgotten and come again, under one code or another; results have their own type."""
    case, random = CASES[name], Random(seed)
    schema = arrow_schema({**case.key, **case.value})
    key = KeyColumns.of(schema, "word", "the test")
    state, output = arrow_schema(case.state), arrow_schema(case.output)
    initial = case.initial if isinstance(case.initial, tuple) else (case.initial,)
    fold = CompiledFold(
        case.fold,
        key=key,
        values=number_fields(pa.schema([schema.field("n")]), "value"),
        state=number_fields(state, "state"),
        initial=initial,
        output=output,
    )
    plainly, coded = Table(Bins(4), fold.state_words), Table(Bins(4), fold.state_words)
    for _ in range(6):
        records = case.some_records(random, 40)
        words, ns = zip(*(row for row in records if row[0] is not None or seed % 4 == 0), strict=True)
        batch = pa.record_batch({"word": pa.array(words, pa.string()), "n": pa.array(ns, pa.int64())})
        other = batch.set_column(0, "word", in_dictionary(random, list(words)))
        keys = key.keys(other)
        assert bool(len(keys.codes)) == (None not in words)
        wanted = fold.apply(plainly, batch, key.keys(batch))
        assert fold.apply(coded, other, keys).equals(wanted)
    assert coded.keys_per_bin() == plainly.keys_per_bin()
