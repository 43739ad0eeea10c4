"""`exchange` and `exchange_by`: records on the worker that they ask for."""

from __future__ import annotations

from typing import Any

import pytest

from framework.errors import OperatorFailed
from framework.launch.report import render
from operators import iterator_source, to_stream
from routing.hashing import stable_hash
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


@pytest.mark.parametrize("seed", SEEDS)
def test_exchange_by_number(seed: int):
    results = run(
        lambda scope: iterator_source(scope, numbers(scope.worker.index)).exchange(lambda n: n).extract(), seed=seed
    )
    assert merged(results) == all_numbers()
    for worker, result in enumerate(results):
        assert {n % 3 for n in result.rows()} == {worker}


@pytest.mark.parametrize("seed", SEEDS)
def test_exchange_by_key(seed: int):
    words = [f"word {n}" for n in range(50)]
    results = run(lambda scope: to_stream(scope, words).exchange_by(lambda word: word).extract(), seed=seed)
    for worker, result in enumerate(results):
        mine = [word for word in words if stable_hash(word) % 3 == worker]
        assert sorted(result.rows()) == sorted(mine * 3)


def first_letter(word: str) -> Any:
    return word[0]


LINE = f"{__file__}:{first_letter.__code__.co_firstlineno}"


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    ("send", "cause"),
    [
        (
            lambda words: words.exchange(first_letter, name="by letter"),
            f"  framework.errors.RouteOutOfRange: first_letter ({LINE}) gave 't' for 'tea'; a route gives an integer, "
            f"and `exchange_by(key)` brings equal keys together",
        ),
        (
            lambda words: words.exchange(lambda word: 2.0, name="by letter"),
            "gave 2.0 for 'tea'; a route gives an integer",
        ),
        (
            lambda words: words.exchange_by(lambda word: first_letter(word[4:]), name="by letter"),
            "  IndexError: string index out of range\n  the record was 'tea'\n",
        ),
        (
            lambda words: words.exchange_by(list, name="by letter"),
            "for instance `tuple(...)` of a list\n  the key was given by list\n  the record was 'tea'",
        ),
    ],
)
def test_a_wrong_route_or_key_is_told_with_the_operator_and_the_record(send: Any, cause: str, workers: int):
    """On one worker as well, where no record needs a route."""
    with pytest.raises(OperatorFailed) as caught:
        run(lambda scope: send(to_stream(scope, ["tea"])).extract(), seed=0, workers=workers)
    assert (caught.value.operator, caught.value.time) == ("by letter", 0)
    assert cause in render(caught.value, 0)
