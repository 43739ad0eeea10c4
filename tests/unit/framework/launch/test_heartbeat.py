"""What a process says of itself once a second, from beside its workers."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator, Sequence

import pytest

from framework.launch import heartbeat as module
from framework.launch.execute import execute
from framework.launch.heartbeat import HeartbeatThread
from framework.launch.liveness import WorkerBeat
from framework.launch.status_pipe import Beat, LastBeat, Status, StatusReader
from framework.worker.worker import Worker
from operators import Input

LIMIT_S = 60.0


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[StatusReader, int]]:
    monkeypatch.setattr(module, "BEAT_S", 0.01)
    reading, writing = os.pipe()
    reader = StatusReader(reading)
    yield reader, writing
    reader.close()
    os.close(writing)


def statuses(reader: StatusReader) -> Sequence[Status]:
    """What comes next, within a limit."""
    ready, _, _ = select.select([reader], [], [], LIMIT_S)
    assert ready, "nothing was sent"
    return reader.read() or ()


def until(reader: StatusReader, wanted: type[Status]) -> None:
    """Read on to a status of this kind."""
    while not any(isinstance(status, wanted) for status in statuses(reader)):
        pass


def until_beat(reader: StatusReader, *, idle: bool = False, stuck: bool = False) -> WorkerBeat:
    """Read on to a beat that says so."""
    while True:
        for status in statuses(reader):
            if isinstance(status, WorkerBeat) and (status.idle, bool(status.stack)) == (idle, stuck):
                return status


def test_a_process_beats_before_it_has_workers_and_says_when_it_is_done(pipe: tuple[StatusReader, int]):
    reader, writing = pipe
    with HeartbeatThread(writing):
        until(reader, Beat)
        until(reader, Beat)
    until(reader, LastBeat)


def test_a_worker_is_known_before_it_steps_since_its_first_step_may_keep_the_interpreter_lock(
    pipe: tuple[StatusReader, int], monkeypatch: pytest.MonkeyPatch
):
    reader, writing = pipe
    monkeypatch.setattr(module, "BEAT_S", 600)

    def main(worker: Worker) -> None:
        with HeartbeatThread(writing) as heartbeat:
            until(reader, Beat)
            heartbeat.watch(worker)
            assert reader.read() == [WorkerBeat(worker.id, 0, idle=False, stack=[])]
            heartbeat.forget(worker)
            assert reader.read() == [WorkerBeat(worker.id, 0, idle=True, stack=[])]

    execute(main)
    until(reader, LastBeat)


def test_a_worker_in_a_long_step_shows_where_and_one_that_is_parked_or_done_is_idle(pipe: tuple[StatusReader, int]):
    reader, writing = pipe
    proceed, done = threading.Event(), threading.Event()
    stacks: list[Sequence[str]] = []

    def long_step() -> None:
        proceed.wait()

    def read(worker: Worker) -> None:
        stacks.append(until_beat(reader, stuck=True).stack)
        proceed.set()
        until_beat(reader, idle=True)
        done.set()
        worker.transport.wake()

    def main(worker: Worker) -> None:
        reading = threading.Thread(target=read, args=[worker])
        reading.start()
        with HeartbeatThread(writing) as heartbeat:
            heartbeat.watch(worker)
            long_step()
            with worker.dataflow() as scope:
                Input[int]().stream(scope)
            worker.step_while(lambda: not done.is_set())
            heartbeat.forget(worker)
        reading.join()

    execute(main)
    [stack] = stacks
    assert stack[0].endswith(", in long_step")
    assert stack[1] == "  proceed.wait()"
    until(reader, LastBeat)
