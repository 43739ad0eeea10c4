"""`replay`: a stream out of events."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from framework.errors import GraphError, OperatorFailed
from framework.launch.execute import example, execute
from framework.progress.order import Product
from framework.simulation.cluster import SimulatedCluster
from operators import EventLog, EventReader, EventWriter, Extracted, Probe, iterator_source, replay
from operators.capture.event import CapturedEvent, MessagesEvent, ProgressEvent
from operators.capture.event_log import TRIM_EVENTS
from operators.errors import CaptureCorrupt, CaptureTruncated
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run


def log_of(*events: CapturedEvent) -> EventLog:
    log = EventLog()
    for event in events:
        log.push(event)
    return log


def test_several_logs_are_as_far_as_the_slowest():
    first = log_of(MessagesEvent(1, ["a"]), ProgressEvent(((0, -1),)))
    second = log_of(ProgressEvent(((4, 1), (0, -1))), MessagesEvent(6, ["b"]), ProgressEvent(((4, -1),)))
    probe = Probe()
    result = example(lambda scope: replay(scope, [first, second]).probe(probe).extract())
    assert result.by_time() == {1: ["a"], 6: ["b"]}
    assert probe.done()


def test_no_logs_are_an_empty_stream():
    assert example(lambda scope: replay(scope, []).extract()).rows() == []


def test_product_times():
    log = log_of(
        ProgressEvent(((Product(0, 3), 1), (Product(1, 0), 1), (Product(0, 0), -1))),
        MessagesEvent(Product(0, 4), ["a"]),
        ProgressEvent(((Product(0, 3), -1),)),
        MessagesEvent(Product(2, 0), ["b"]),
        ProgressEvent(((Product(1, 0), -1),)),
    )

    def build(scope):
        with scope.iterative() as inner:
            return replay(inner, [log]).extract()

    assert example(build).by_time() == {Product(0, 4): ["a"], Product(2, 0): ["b"]}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_is_followed_by_another_dataflow_while_it_is_written(seed: int):
    results: list[Extracted[int]] = []

    def program(worker):
        log = EventLog(retain=False)
        with worker.dataflow("read") as scope:
            results.append(replay(scope, [log]).exchange(lambda n: n).extract())
        yield
        with worker.dataflow("write") as scope:
            iterator_source(scope, numbers(worker.index, epochs=20)).capture(log)

    SimulatedCluster(workers=2, seed=seed).run(program)
    assert merged(results) == all_numbers(2, epochs=20)


def test_a_log_is_followed_by_a_parked_worker_while_another_thread_writes_it():
    log = EventLog()
    seen = list[int]()

    def write() -> None:
        execute(lambda worker: build_writer(worker))

    def build_writer(worker):
        with worker.dataflow() as scope:
            iterator_source(scope, [(epoch, [epoch]) for epoch in range(100)]).capture(log)

    def main(worker):
        with worker.dataflow() as scope:
            result = replay(scope, [log]).inspect(seen.append).extract()
        while not worker.step():
            pass
        thread.start()
        return result

    thread = Thread(target=write)
    [result] = execute(main)
    thread.join()
    assert result.by_time() == {epoch: [epoch] for epoch in range(100)}
    assert seen == list(range(100))


@pytest.mark.parametrize("seed", SEEDS)
def test_it_pauses_while_links_are_congested_and_goes_on_afterwards(seed: int):
    log = EventLog()
    example(lambda scope: iterator_source(scope, numbers(0, epochs=30)).capture(log))
    results = run(
        lambda scope: replay(scope, [log] if scope.worker.index == 1 else []).exchange(lambda n: n).extract(),
        seed=seed,
        congested_frames=0,
    )
    assert merged(results) == all_numbers(1, epochs=30)


@pytest.mark.parametrize(
    "events",
    [
        [ProgressEvent(((3, 1), (0, -1))), MessagesEvent(2, ["late"])],
        [ProgressEvent(((1, -1),))],
        [ProgressEvent(((3, 1), (0, -1))), ProgressEvent(((2, 1), (3, -1)))],
    ],
)
def test_events_that_no_capture_writes(events: list[CapturedEvent]):
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: replay(scope, [log_of(*events)]).extract())
    assert isinstance(caught.value.__cause__, CaptureCorrupt)


def test_times_of_another_kind_of_scope():
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: replay(scope, [log_of(MessagesEvent(Product(0, 0), ["a"]))]).extract())
    assert isinstance(caught.value.__cause__, GraphError)


def test_a_truncated_file(tmp_path: Path):
    writer = EventWriter(tmp_path / "words")
    writer.push(MessagesEvent(0, ["a"]))
    writer.push(ProgressEvent(((1, 1), (0, -1))))
    writer.push(MessagesEvent(1, ["b"]))
    writer.close()
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: replay(scope, [EventReader(tmp_path / "words")]).extract())
    assert isinstance(caught.value.__cause__, CaptureTruncated)
    as_far_as_it_goes = EventReader(tmp_path / "words", allow_truncated=True)
    result = example(lambda scope: replay(scope, [as_far_as_it_goes]).extract())
    assert result.by_time() == {0: ["a"], 1: ["b"]}


def test_a_dropped_dataflow_stops_reading():
    """The log does not keep for it what another reader has passed."""
    log = EventLog(retain=False)
    log.push(MessagesEvent(0, ["a"]))

    def main(worker):
        with worker.dataflow() as scope:
            replay(scope, [log]).extract()
        worker.step()
        worker.drop_dataflow(0)

    execute(main)
    reader = log.open(lambda: None)
    for _ in range(1, TRIM_EVENTS):
        log.push(MessagesEvent(0, ["b"]))
    assert [reader.next_event() for _ in range(TRIM_EVENTS + 1)][-1] is None
    assert log.events() == []
