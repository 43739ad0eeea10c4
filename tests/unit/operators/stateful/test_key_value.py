"""Keys and values of records: of pairs, and by functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from framework.dataflow.scope import Scope
from framework.errors import OperatorFailed
from framework.launch.execute import example
from operators import Stream, empty, to_stream
from operators.errors import RecordNotPair, UserError
from operators.stateful.key_value import by_key, check_key, is_pair
from routing.hashing import UnsupportedKey, stable_hash
from tests.unit.operators.cluster import merged, run


def test_pairs_go_where_their_keys_do():
    route = by_key("fold").route
    assert [route((key, "value")) for key in ("tea", 7, None)] == [stable_hash(key) for key in ("tea", 7, None)]


@pytest.mark.parametrize("record", [7, None, (), {}, object])
def test_on_a_cluster_what_is_not_a_pair_does_not_travel(record: Any):
    with pytest.raises(RecordNotPair, match="operator 'fold' expects pairs"):
        by_key("fold").route(record)


@pytest.mark.parametrize("key", ["a", 7, None, [], {}, object()])
@pytest.mark.parametrize("record", [lambda key: (key, 1), lambda key: [key, 1]])
def test_one_worker_refuses_the_keys_that_several_cannot_route(record: Callable[[Any], Any], key: Any):
    assert refusal(check_key, record(key)) == refusal(by_key("fold").route, record(key))


@pytest.mark.parametrize("key", [frozenset(), [], object])
@pytest.mark.parametrize("operator", ["state_machine", "stateful_state_machine", "aggregate"])
def test_operators_refuse_such_a_key_when_they_are_alone(operator: str, key: Any):
    def fold(key: Any, value: int, state: int) -> Any:
        return (value, []) if "machine" in operator else value

    with pytest.raises(OperatorFailed, match=f"operator {operator!r}") as caught:
        example(lambda scope: getattr(to_stream(scope, [(key, 1)]), operator)(fold, initial=0))
    assert isinstance(caught.value.__cause__, UnsupportedKey)
    assert str(caught.value.__cause__) == refusal(check_key, (key, 1))


@pytest.mark.parametrize("record", [7, "ab", ([],), ([], 1, 2)])
def test_what_is_not_a_pair_has_no_key_to_refuse(record: Any):
    assert refusal(check_key, record) is None


def refusal(function: Callable[[Any], object], record: Any) -> str | None:
    try:
        function(record)
    except UnsupportedKey as error:
        return str(error)
    return None


def test_the_error_names_the_operator_that_expects_pairs():
    records: list[Any] = [7]
    with pytest.raises(OperatorFailed) as caught:
        run(
            lambda scope: to_stream(scope, records).aggregate(lambda k, v, s: s, initial=0, name="sum").extract(),
            seed=0,
        )
    assert isinstance(caught.value.__cause__, RecordNotPair)
    assert "operator 'sum' expects pairs (key, value), and received 7" in str(caught.value.__cause__)


@pytest.mark.parametrize(("record", "answer"), [(("a", 1), True), (["a", 1], True), ("ab", False), ((1,), False)])
def test_what_a_pair_is(record: Any, answer: bool):
    assert is_pair(record) is answer


Sale = tuple[str, int, int]
SALES: list[Sale] = [("tea", 1, 5), ("milk", 2, 7), ("tea", 3, 1)]


def what(sale: Sale) -> str:
    return sale[0]


def cents(sale: Sale) -> int:
    return sale[2]


def add(key: str, value: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + value, [(key, total + value)]


def add_sale(key: str, sale: Sale, total: int) -> tuple[int, list[tuple[str, int]]]:
    return add(key, sale[2], total)


Build = Callable[[Stream[Sale]], Stream[tuple[str, int]]]
RUNNING: list[Build] = [
    lambda sales: sales.map(lambda sale: (sale[0], sale[2])).state_machine(add, initial=0),
    lambda sales: sales.state_machine(add_sale, initial=0, key=what),
    lambda sales: sales.state_machine(add, initial=0, key=what, value=cents),
    lambda sales: sales.stateful_state_machine(add_sale, initial=0, key=what),
    lambda sales: sales.stateful_state_machine(add, initial=0, key=what, value=cents),
    lambda sales: sales.stateful_state_machine(add, initial=0, key=what, value=cents, control=empty(sales.scope)),
]
PER_EPOCH: list[Build] = [
    lambda sales: sales.aggregate(lambda key, sale, total: total + sale[2], initial=0, key=what),
    lambda sales: sales.aggregate(lambda key, cents, total: total + cents, initial=0, key=what, value=cents),
]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("build", "totals"),
    [(build, [("milk", 7), ("tea", 5), ("tea", 6)]) for build in RUNNING]
    + [(build, [("milk", 7), ("tea", 6)]) for build in PER_EPOCH],
)
def test_functions_give_keys_and_values(build: Build, totals: Any, workers: int):
    results = run(
        lambda scope: build(to_stream(scope, SALES if scope.worker.index == 0 else [])).extract(),
        seed=0,
        workers=workers,
    )
    assert merged(results) == {0: totals}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("on_bins", [False, True])
@pytest.mark.parametrize("operator", ["state_machine", "aggregate", "stateful_state_machine"])
@pytest.mark.parametrize("option", ["key", "value"])
def test_a_function_of_keys_or_values_that_fails(option: str, operator: str, on_bins: bool, workers: int):
    functions: dict[str, Any] = {"key": what, "value": cents} | {option: lambda sale: 1 // 0}

    def build(scope: Scope) -> Any:
        if on_bins and operator == "stateful_state_machine":
            functions["control"] = empty(scope)
        return getattr(to_stream(scope, SALES[:1]), operator)(add, initial=0, **functions).extract()

    with pytest.raises(OperatorFailed) as caught:
        run(build, seed=0, workers=workers)
    assert caught.value.operator == operator
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.__cause__.__notes__ == ["the record was ('tea', 1, 5)"]


def test_a_value_without_a_key():
    with pytest.raises(UserError, match="operator 'state_machine' received a `value` and no `key`"):
        example(lambda scope: to_stream(scope, SALES).state_machine(add, initial=0, value=cents))  # type: ignore[call-overload]
