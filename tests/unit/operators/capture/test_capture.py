"""`capture`: a stream, kept as events."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.launch.execute import example, execute
from framework.progress.order import Product
from operators import EventLog, EventReader, EventWriter, Input, iterator_source, replay
from operators.capture.event import MessagesEvent, ProgressEvent
from operators.errors import CaptureTruncated
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def test_in_a_nested_scope():
    log = EventLog()

    def build(scope):
        with scope.iterative() as inner:
            iterator_source(scope, [(2, ["a"])]).enter(inner).capture(log)

    example(build)
    assert log.events() == [
        MessagesEvent(Product(2, 0), ["a"]),
        ProgressEvent(((Product(2, 0), 1), (Product(0, 0), -1))),
        ProgressEvent(((Product(2, 0), -1),)),
    ]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("replayers", [1, 2, 5])
def test_files_replayed_with_another_number_of_workers(replayers: int, seed: int, tmp_path: Path):
    paths = [tmp_path / f"numbers.{worker}" for worker in range(3)]
    run(
        lambda scope: (
            iterator_source(scope, numbers(scope.worker.index))
            .exchange(lambda n: n)
            .capture(EventWriter(paths[scope.worker.index]))
        ),
        seed=seed,
    )
    results = run(
        lambda scope: (
            replay(scope, [EventReader(path) for path in paths[scope.worker.index :: replayers]])
            .exchange(lambda n: n // 3)
            .extract()
        ),
        seed=seed,
        workers=replayers,
    )
    assert merged(results) == all_numbers()


def test_a_dropped_dataflow_leaves_a_truncated_file(tmp_path: Path):
    def main(worker):
        words = Input[str]()
        with worker.dataflow() as scope:
            words.stream(scope).capture(EventWriter(tmp_path / "words"))
        words.send("a")
        words.advance_to(1)
        worker.step()
        worker.step()
        worker.drop_dataflow(0)

    execute(main)
    cursor = EventReader(tmp_path / "words").open(lambda: None)
    assert cursor.next_event() == MessagesEvent(0, ["a"])
    assert cursor.next_event() == ProgressEvent(((1, 1), (0, -1)))
    with pytest.raises(CaptureTruncated):
        cursor.next_event()
