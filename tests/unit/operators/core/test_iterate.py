"""`iterate`: a loop within each time."""

from __future__ import annotations

import pytest

from framework.launch.execute import example
from operators import Stream, iterator_source
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def steps_to_one(number: int) -> int:
    steps = 0
    while number > 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


def collatz(variable: Stream[tuple[int, int, int]]) -> tuple[Stream[tuple[int, int, int]], Stream[tuple[int, int]]]:
    """Records are (start, current, steps); each round may take place on another worker."""
    done, rest = variable.exchange(lambda record: record[1]).branch(lambda time, record: record[1] > 1)
    again = rest.map(lambda r: (r[0], r[1] // 2 if r[1] % 2 == 0 else 3 * r[1] + 1, r[2] + 1))
    return again, done.map(lambda r: (r[0], r[2]))


def test_results_leave_at_the_time_they_came_in_at():
    def build(scope):
        source = iterator_source(scope, [(0, [27, 1]), (3, [6])])
        return source.map(lambda n: (n, n, 0)).iterate(collatz).extract()

    by_time = example(build).by_time()
    assert {time: sorted(rows) for time, rows in by_time.items()} == {0: [(1, 0), (27, 111)], 3: [(6, 8)]}


def test_a_loop_in_a_loop():
    """Count down from n, and within each round count down from there."""

    def inner(variable):
        return variable.map(lambda n: n - 1).filter(lambda n: n > 0), variable

    def outer(variable):
        return variable.map(lambda n: n - 1).filter(lambda n: n > 0), variable.iterate(inner)

    result = example(lambda scope: iterator_source(scope, [(1, [3])]).iterate(outer).extract())
    assert {time: sorted(rows) for time, rows in result.by_time().items()} == {1: [1, 1, 1, 2, 2, 3]}


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    def build(scope):
        source = iterator_source(scope, numbers(scope.worker.index, epochs=3, rows=2))
        return source.map(lambda n: (n, n, 0)).iterate(collatz).extract()

    expected = {time: [(n, steps_to_one(n)) for n in rows] for time, rows in all_numbers(2, epochs=3, rows=2).items()}
    assert merged(run(build, seed=seed, workers=2)) == expected
