"""All NaN are one key, in every operator on rows, in stores of both kinds, before and after a move."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from framework.launch.execute import example
from operators import BinOptions, Stream, process, to_stream
from operators.stateful.fold import StateMachine
from operators.stateful.key_value import KeyValue
from operators.stateful.process import ProcessLogic, Timers
from routing.bins import BinId
from routing.state import memory
from routing.state.memory import GATHER_MAX
from routing.state.nan_key import NAN, may_hold_nan, one_nan
from routing.state.rocks import RocksStore
from routing.state.rocks_budget import MIB


class Reading(NamedTuple):
    place: str
    value: float


def nans() -> list[Any]:
    return [float("nan"), -float("nan"), Decimal("NaN"), np.float32("nan")]


def pairs() -> list[tuple[Any, int]]:
    return [*((key, 1) for key in nans()), *(((key, ("a", 0)), 1) for key in nans()), (0.5, 1), (("a", 1), 1)]


def count(key: Any, n: int, total: int) -> tuple[int, list[Any]]:
    return total + n, [(repr(key), total + n)]


COUNTED = [
    *[("nan", n) for n in range(1, 5)],
    *[("(nan, ('a', 0))", n) for n in range(1, 5)],
    ("0.5", 1),
    ("('a', 1)", 1),
]


@pytest.mark.parametrize(
    "operator",
    [
        lambda stream: stream.state_machine(count, initial=0),
        lambda stream: stream.stateful_state_machine(count, initial=0),
    ],
)
def test_a_fold_sees_one_key(operator: Callable[[Stream[Any]], Stream[Any]]):
    assert example(lambda scope: operator(to_stream(scope, pairs())).extract()).rows() == COUNTED


def test_an_aggregate_has_one_result():
    def add(key: Any, n: int, total: int) -> int:
        return total + n

    sums = example(lambda scope: to_stream(scope, pairs()).aggregate(add, initial=0).extract()).rows()
    assert [(repr(key), total) for key, total in sums] == [
        ("nan", 4),
        ("(nan, ('a', 0))", 4),
        ("0.5", 1),
        ("('a', 1)", 1),
    ]


class Alarm:
    """Sets a timer per record, and tells when it goes off how many records its key has had."""

    def initial(self) -> int:
        return 0

    def on_record(self, port: int, record: Any, state: int, timers: Timers) -> tuple[int, list[Any]]:
        timers.set(timers.time + 1)
        return state + 1, []

    def on_timer(self, key: Any, state: int, timers: Timers) -> tuple[int, list[Any]]:
        return state, [(repr(key), state)]


def test_a_timer_goes_off_once():
    def build(scope: Any) -> Any:
        return process([(to_stream(scope, pairs()), lambda pair: pair[0])], Alarm()).extract()

    assert sorted(example(build).rows()) == [("('a', 1)", 1), ("(nan, ('a', 0))", 4), ("0.5", 1), ("nan", 4)]


@pytest.mark.parametrize("more", [False, True])
def test_a_timer_that_has_moved_goes_off_as_one_with_that_of_its_new_worker(more: bool):
    old, new = (ProcessLogic(Alarm(), [lambda record: record], BinOptions.of(1), "it") for _ in range(2))
    old.apply(0, 0, nans())
    for chunk in old.bin_state.extract(BinId(0), 1000):
        new.bin_state.install(BinId(0), chunk)
    moved = [(time, float("nan")) for time, _ in old.bin_state.extract_timers(BinId(0))]
    new.bin_state.install_timers(BinId(0), moved)
    if more:
        new.apply(0, 0, nans())
    assert new.on_due(1) == [("nan", 8 if more else 4)]


@pytest.mark.parametrize("keys", [1, memory.SINGLE_MAX + 1])
@pytest.mark.parametrize("on_disk", [False, True])
def test_stores_have_one_state(keys: int, on_disk: bool, tmp_path: Path):
    """Also when there are so many keys that they are sharded, in small batches and large ones, and after moves."""
    if on_disk and keys > 1:
        keys = 2_000
    options = BinOptions(4, store=RocksStore.maker(tmp_path, 32 * MIB)) if on_disk else BinOptions.of(4)
    logics = [StateMachine(count, lambda: 0, KeyValue(None, None, "count"), options, "count") for _ in range(2)]
    logics[0].apply(0, 0, [(key, 1) for key in range(keys)])
    total = 0
    for batch in (nans(), nans() * GATHER_MAX, nans()):
        total += len(batch)
        outputs = logics[0].apply(0, 0, [((key, "x"), 1) for key in batch] + [(key, 1) for key in batch])
        assert outputs[-1] == ("nan", total)
        assert outputs[len(batch) - 1] == ("(nan, 'x')", total)
        assert sum(logics[0].bin_state.bins().values()) == keys + 2
        for bin_id in logics[0].bin_state.bins():
            for chunk in logics[0].bin_state.extract(bin_id, 10_000):
                logics[1].bin_state.install(bin_id, chunk)
        logics.reverse()
    for logic in logics:
        logic.bin_state.close()


def test_the_one_key():
    key = ("tea", (1.5, Decimal("0.1"), np.float32(2)), None)
    assert one_nan(key) is key
    assert one_nan(Reading("a", -float("nan"))) == Reading("a", NAN)
    assert type(one_nan(Reading("a", -float("nan")))) is Reading
    assert not may_hold_nan(["a", 1, None])
    assert not may_hold_nan([("a", 1), (b"", None)])
    assert may_hold_nan(["a", 1.5])
    assert may_hold_nan([("a", 1), ("b", (1.5,))])
