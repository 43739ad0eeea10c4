"""Everything of interest that a worker does is told to whoever listens, and only while they do."""

from __future__ import annotations

from framework import events
from framework.membership.members import WorkerId
from framework.progress.location import Target
from framework.simulation.cluster import SimulatedCluster
from framework.worker.worker import Worker
from operators import Input, Probe


def keep_in(heard: list[events.Event]) -> events.Reader:
    return lambda worker, at_s, event: heard.append(event)


def run(listeners: dict[int, list[events.Event]]) -> None:
    """Two workers, one epoch, one record that worker 0 sends to worker 1."""
    cluster = SimulatedCluster(workers=2, seed=1)
    for worker, heard in listeners.items():
        cluster.workers[WorkerId(worker)].events.subscribe(keep_in(heard))

    def program(worker: Worker):
        numbers, probe = Input[int]("numbers"), Probe()
        with worker.dataflow("flow") as scope:
            numbers.stream(scope).exchange(lambda _: 1).probe(probe)
        if worker.index == 0:
            numbers.send(7)
        numbers.close()
        yield
        while not probe.done():
            yield

    cluster.run(program)


def test_a_dataflow_is_told_from_its_building_to_its_end():
    heard: list[events.Event] = []
    run({0: heard})
    [built] = [event for event in heard if isinstance(event, events.DataflowBuilt)]
    assert built == events.DataflowBuilt(0, "flow", (("0.1", "numbers"), ("0.2", "exchange"), ("0.3", "probe")))
    assert heard[-1] == events.DataflowFinished(0)
    assert {event.path for event in heard if isinstance(event, events.OperatorScheduled)} >= {"0.1", "0.3"}


def test_records_are_counted_where_an_operator_takes_and_sends_them():
    heard: list[events.Event] = []
    run({0: heard})
    ran = [event for event in heard if isinstance(event, events.OperatorScheduled)]
    assert sum(event.produced for event in ran if event.path == "0.1") == 1
    assert [sum(event.consumed for event in ran if event.path == path) for path in ("0.1", "0.2")] == [0, 0]
    other: list[events.Event] = []
    run({1: other})
    ran = [event for event in other if isinstance(event, events.OperatorScheduled)]
    assert sum(event.consumed for event in ran if event.path == "0.2") == 1


def test_messages_are_told_at_both_ends():
    sender: list[events.Event] = []
    receiver: list[events.Event] = []
    run({0: sender, 1: receiver})
    [sent] = [event for event in sender if isinstance(event, events.MessageSent)]
    [received] = [event for event in receiver if isinstance(event, events.MessageReceived)]
    assert (sent.peer, sent.records) == (1, 1)
    assert received == events.MessageReceived(sent.channel, WorkerId(0), 1)


def test_progress_is_told_with_its_numbers_and_frontiers_as_they_move():
    heard: list[events.Event] = []
    other: list[events.Event] = []
    run({0: heard, 1: other})
    for sender, told in ((0, heard), (1, other)):
        numbers = [event.sequence for event in told if isinstance(event, events.ProgressSent)]
        assert numbers == list(range(len(numbers)))
        for receiver in (heard, other):
            received = [
                event.sequence
                for event in receiver
                if isinstance(event, events.ProgressReceived) and event.sender == sender
            ]
            assert received == numbers
    at_probe = [
        (event.time, event.change)
        for event in heard
        if isinstance(event, events.FrontierChanged) and event.location == Target(3, 0)
    ]
    assert at_probe == [(0, 1), (0, -1)]


def test_who_stops_listening_is_told_no_more():
    heard: list[tuple[WorkerId, float, events.Event]] = []
    clock = iter(range(10)).__next__
    stream = events.Events(WorkerId(3), clock)
    assert not stream.listening
    stop = stream.subscribe(lambda worker, at_s, event: heard.append((worker, at_s, event)))
    assert stream.listening
    stream.emit(events.Parked(0.5))
    stop()
    assert not stream.listening
    stream.emit(events.Parked(0.7))
    assert heard == [(3, 0, events.Parked(0.5))]
