"""What a process writes to its status pipe is what its supervisor reads, in whatever pieces it comes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from framework.events import JoinPhase, MembersChanged
from framework.launch.execute import execute
from framework.launch.liveness import WorkerBeat
from framework.launch.status_pipe import (
    Beat,
    Failure,
    JoinDone,
    LastBeat,
    PhaseDone,
    ProcessDone,
    Status,
    StatusReader,
    Up,
    report_join,
    send_if_read,
    send_status,
)
from framework.membership.members import WorkerId
from framework.worker.worker import Worker

STATUSES: list[Status] = [
    Up(),
    Beat(),
    WorkerBeat(WorkerId(3), 12, idle=False, stack=["job.py:3, in work", "  é"]),
    LastBeat(),
    PhaseDone(WorkerId(3), "learn", 0.25),
    JoinDone(WorkerId(3)),
    ProcessDone({"records": 3}),
    Failure(2, "job failed: é\n"),
]


@pytest.fixture
def pipe() -> Iterator[tuple[StatusReader, int]]:
    reading, writing = os.pipe()
    reader = StatusReader(reading)
    yield reader, writing
    reader.close()
    reader.close()


def test_a_pipe_that_fails_is_one_that_has_ended():
    """Between machines it is a connection, which fails in more ways than by a reset; here it is a terminal."""
    supervisor, process = os.openpty()
    reader = StatusReader(supervisor)
    os.close(process)
    assert reader.read() is None
    reader.close()
    supervisor, process = os.openpty()
    os.close(supervisor)
    send_status(process, Up())
    os.close(process)


def test_what_is_sent_is_read_until_the_process_has_ended(pipe: tuple[StatusReader, int]):
    reader, writing = pipe
    for status in STATUSES:
        send_status(writing, status)
    os.close(writing)
    assert reader.read() == STATUSES
    assert reader.read() is None


def test_a_status_that_comes_in_pieces_is_read_once_it_is_whole(pipe: tuple[StatusReader, int]):
    reader, writing = pipe
    read: list[Status] = []
    for octet in b'["up"]\n["joined", 3]\n["failed", 0, "never finis':
        os.write(writing, bytes([octet]))
        read += reader.read() or []
    assert read == [Up(), JoinDone(WorkerId(3))]
    os.close(writing)
    assert reader.read() is None, "and what is not whole at the end is dropped"


def test_a_supervisor_that_is_gone_is_not_missed():
    reading, writing = os.pipe()
    os.close(reading)
    send_status(writing, Up())
    os.close(writing)


def test_what_is_sent_only_if_it_is_read_does_not_wait_for_a_supervisor_that_is_stopped(
    pipe: tuple[StatusReader, int],
):
    reader, writing = pipe
    beat = WorkerBeat(WorkerId(3), 12, idle=False, stack=["x" * 1000])
    for _ in range(1000):
        send_if_read(writing, beat)
    os.close(writing)
    read: list[Status] = []
    while (some := reader.read()) is not None:
        read += some
    assert 0 < len(read) < 1000
    assert set(map(repr, read)) == {repr(beat)}


def test_a_join_is_reported_until_the_worker_is_a_member(pipe: tuple[StatusReader, int]):
    reader, writing = pipe

    def main(worker: Worker) -> None:
        report_join(writing, worker)
        worker.events.emit(JoinPhase("learn", 0.5))
        worker.events.emit(MembersChanged(worker.members))
        worker.events.emit(JoinPhase("late", 0.5))

    execute(main)
    assert reader.read() == [PhaseDone(WorkerId(0), "learn", 0.5), JoinDone(WorkerId(0))]
    os.close(writing)
