"""`to_columns` and `to_rows`: there and back, also between workers."""

from __future__ import annotations

import pytest

from framework.errors import OperatorFailed
from framework.launch.execute import example
from operators import iterator_source, to_stream
from operators.errors import RecordUnfit
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_batches_keep_their_times_and_sizes():
    seen: list[tuple[object, dict[str, list[object]]]] = []
    rows = [(0, ["tea", "milk"]), (3, ["tea"])]
    example(
        lambda scope: (
            iterator_source(scope, rows)
            .to_columns({"word": str})
            .inspect_batch(lambda time, batch: seen.append((time, batch.to_pydict())))
        )
    )
    assert seen == [(0, {"word": ["tea", "milk"]}), (3, {"word": ["tea"]})]


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_are_dealt_out_on_a_cluster(seed: int):
    results = run(
        lambda scope: (
            iterator_source(scope, numbers(scope.worker.index))
            .map(lambda n: (n, str(n)))
            .to_columns({"number": int, "text": str})
            .deal()
            .to_rows()
            .map(lambda row: row[0] if row[1] == str(row[0]) else None)
            .extract()
        ),
        seed=seed,
    )
    assert merged(results) == all_numbers()


def test_a_record_that_does_not_fit_ends_the_job():
    with pytest.raises(OperatorFailed, match="'to_columns'") as caught:
        example(lambda scope: to_stream(scope, ["tea", "two"]).to_columns({"number": int}))
    assert isinstance(caught.value.__cause__, RecordUnfit)
