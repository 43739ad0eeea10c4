"""`exchange` and `exchange_by`: records on the worker that they ask for."""

from __future__ import annotations

import pytest

from framework.errors import OperatorFailed
from operators import iterator_source, to_stream
from routing.hashing import UnsupportedKey, stable_hash
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


def test_a_key_without_a_stable_hash():
    with pytest.raises(OperatorFailed) as caught:
        run(lambda scope: to_stream(scope, [[1]]).exchange_by(lambda record: record).extract(), seed=0)
    assert isinstance(caught.value.__cause__, UnsupportedKey)
