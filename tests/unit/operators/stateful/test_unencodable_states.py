"""A state that could not move ends the job when it is made, on one worker, too, and not when its bin moves first."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from framework.errors import OperatorFailed
from framework.launch.execute import example
from framework.wire import codec
from operators import BinOptions, Job, Stream, process, to_stream
from operators.errors import UnencodableState
from operators.stateful.fold import StateMachine
from operators.stateful.key_value import KeyValue
from operators.stateful.per_bin_logic import BinnedLogic
from routing.bins import BinId, Bins


@dataclass
class Held:
    lock: Any = None


def keep(key: Any, value: Any, state: Any) -> tuple[Any, list[Any]]:
    return value, [key]


class Keep:
    """A process whose state is the last value."""

    def initial(self) -> Any:
        return None

    def on_record(self, port: int, record: Any, state: Any, timers: Any) -> tuple[Any, list[Any]]:
        return record[1], [record[0]]

    def on_timer(self, key: Any, state: Any, timers: Any) -> tuple[Any, list[Any]]:
        raise AssertionError


def keep_in_bin(time: int, rows: list[Any], bin: Any) -> list[Any]:
    for key, value in rows:
        bin.state[key] = value
    return [key for key, _ in rows]


def replace_bin(time: int, rows: list[Any], bin: Any) -> list[Any]:
    bin.state = rows[0][1]
    return []


def postpone(time: int, rows: list[Any], bin: Any) -> list[Any]:
    bin.put_off(time + 1, rows[0][1])
    return []


def of_key(pair: Any) -> Any:
    return pair[0]


Operator = Callable[[Stream[Any]], Stream[Any]]
OPERATORS: dict[str, tuple[Operator, str]] = {
    "state machine": (
        lambda pairs: pairs.stateful_state_machine(keep, initial=0, name="it"),
        r"the state of key 'k', a {kind}, cannot be encoded{detail}; make it of",
    ),
    "process": (
        lambda pairs: process([(pairs, of_key)], Keep(), name="it"),
        r"the state of key 'k', a {kind}, cannot be encoded{detail}; make it of",
    ),
    "entry of a bin": (
        lambda pairs: pairs.stateful_unary(keep_in_bin, key=of_key, initial=dict, name="it"),
        r"the state of key 'k', a {kind}, cannot be encoded{detail}; make it of",
    ),
    "bin": (
        lambda pairs: pairs.stateful_unary(replace_bin, key=of_key, initial=0, name="it"),
        r"the state of a bin, a {kind}, cannot be encoded{detail}; make it of",
    ),
    "put off": (
        lambda pairs: pairs.stateful_unary(postpone, key=of_key, initial=0, name="it"),
        r"what was put off until 1, a {kind}, cannot be encoded{detail}; make it of",
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(
    ("value", "kind", "detail"),
    [
        (threading.Lock(), "lock", ""),
        (Held(threading.Lock()), "Held", ": a lock"),
        ([(1, threading.Lock())], "list", ": a lock"),
    ],
)
def test_a_job_is_told_at_once(name: str, value: Any, kind: str, detail: str):
    operator, expected = OPERATORS[name]
    job = Job("keeping")

    @job.dataflow
    def keeping(flow: Any) -> None:
        flow.output("kept", operator(flow.input("pairs")))

    with pytest.raises(OperatorFailed) as caught:
        job.run({"pairs": [("k", value)]})
    begin = "^operator 'it' keeps what could not move to another worker: "
    assert isinstance(caught.value.__cause__, UnencodableState)
    assert re.match(begin + expected.format(kind=kind, detail=detail), str(caught.value.__cause__))


@pytest.mark.parametrize("name", sorted(OPERATORS.keys() - {"put off"}))
def test_where_bins_cannot_move_a_state_is_anything(name: str):
    operator, _ = OPERATORS[name]
    pairs = [("k", threading.Lock())]
    example(lambda scope: operator(to_stream(scope, pairs)).extract())


def machine() -> StateMachine:
    made = StateMachine(keep, lambda: None, KeyValue(None, None, "it"), BinOptions.of(1), "it")
    made.bin_state.must_travel("it")
    return made


def test_a_state_of_another_type_is_told_later_too():
    made = machine()
    made.apply(0, 0, [("a", 1), ("b", Counter("x")), ("c", None)])
    made.apply(0, 0, [("a", Counter("y"))])
    with pytest.raises(UnencodableState, match=r"the state of key 'a', a object"):
        made.apply(0, 0, [("b", 1), ("a", object())])
    with pytest.raises(UnencodableState, match=r"the state of key 'd', a object"):
        machine().apply(0, 0, [("d", object()), ("a", 1)])


def test_what_is_hidden_deeper_is_an_obstacle_of_its_bin():
    made = machine()
    made.apply(0, 0, [("a", [1]), ("b", [2])])
    assert made.bin_state.obstacle(BinId(0)) is None
    made.apply(0, 0, [("b", [object()])])
    obstacle = made.bin_state.obstacle(BinId(0))
    assert obstacle is not None
    assert obstacle.startswith("the state of key 'b', a list, cannot be encoded: a object; make it of tuples,")
    assert made.apply(0, 0, [("a", 1), ("b", 2)]) == ["a", "b"]
    assert made.bin_state.obstacle(BinId(0)) is None


def test_each_type_is_tried_once():
    encoded: list[Any] = []

    class Loud:
        pass

    codec.register(Loud, "tests.Loud", encode=lambda value: encoded.append(value), decode=lambda _: Loud())
    made = machine()
    for _ in range(3):
        made.apply(0, 0, [(key, Loud()) for key in "abc"])
    assert len(encoded) == 1
    per_bin = BinnedLogic(
        lambda _, time, rows, bin: keep_in_bin(time, rows, bin),
        replace_bin,
        keys=[of_key],
        initial=dict,
        bins=Bins(1),
        name="it",
    )
    per_bin.bin_state.must_travel("it")
    for _ in range(3):
        per_bin.apply(0, 0, [(key, Loud()) for key in "abc"])
    assert len(encoded) == 2
