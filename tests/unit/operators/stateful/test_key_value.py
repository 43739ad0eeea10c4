"""`pairs`: records of a key and a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from framework.errors import OperatorFailed
from framework.launch.execute import example
from operators import to_stream
from operators.errors import RecordNotPair
from operators.stateful.key_value import by_key, check_key, is_pair
from routing.hashing import UnsupportedKey, stable_hash
from tests.unit.operators.cluster import run


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
