"""Which workers are asked, and what becomes of those that do not answer, or cannot."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from framework.errors import NoAnswer, RequestFailed
from framework.launch.control_protocol import Supervised
from framework.launch.rpc import RpcClient, RpcLink
from framework.membership.members import WorkerId
from operators.admin.errors import BadRequest
from operators.admin.json_codec import to_json
from operators.control.worker_messages import AskGoal, GoalShare
from operators.control.worker_rpc import WorkerRpc

ZERO, ONE, TWO = map(WorkerId, range(3))

Answer = Callable[[WorkerId], dict[str, Any] | None]
"""What a worker's process sends to a request; None ends the process."""


def shipped(worker: WorkerId) -> dict[str, Any]:
    return {"answer": to_json(GoalShare(100 + worker, None, None))}


def raising(worker: WorkerId) -> dict[str, Any]:
    return {"error": f"worker {worker} has no goals"}


def ending(_: WorkerId) -> None:
    return None


class Scripted:
    """Processes of one worker each, which answer as they are told."""

    def __init__(self) -> None:
        self.running: list[Supervised] = []

    def processes(self) -> Sequence[Supervised]:
        return self.running

    def coming(self, count: int) -> Sequence[WorkerId]:
        return [WorkerId(len(self.running) + index) for index in range(count)]

    def spawn(self) -> Supervised:
        return self.add(shipped, member=False)

    def add(self, answer: Answer, *, member: bool = True) -> Supervised:
        ours, theirs = socket.socketpair()
        link, worker = RpcLink(theirs), WorkerId(len(self.running))

        def serve() -> None:
            while (message := link.receive()) is not None and (said := answer(worker)) is not None:
                link.send({"id": message["id"], **said})
            link.close()

        threading.Thread(target=serve, daemon=True).start()
        process = Supervised(worker, 4242 + worker, [worker], RpcClient(RpcLink(ours)))
        process.joined.update([worker] if member else [])
        self.running.append(process)
        return process


@pytest.fixture
def job() -> Iterator[Scripted]:
    processes = Scripted()
    processes.add(shipped)
    yield processes
    for process in processes.running:
        process.rpc.close()


def test_all_members_are_asked_but_those_that_are_named_and_those_on_their_way(job: Scripted):
    job.add(shipped)
    job.add(shipped)
    rpc = WorkerRpc(job)
    joiner = rpc.spawn()
    busy = {ONE: "worker 1 is busy"}
    assert rpc.coming(2) == [WorkerId(4), WorkerId(5)]
    assert (rpc.commanding, list(rpc.workers)) == (ZERO, [ZERO, ONE, TWO, WorkerId(joiner.process)])
    assert rpc.ask_all(AskGoal(0), but=busy) == (
        {ZERO: GoalShare(100, None, None), TWO: GoalShare(102, None, None)},
        busy,
    )


def test_a_worker_whose_process_ends_does_not_keep_the_others_from_answering(job: Scripted):
    job.add(ending)
    answers, silent = WorkerRpc(job).ask_all(AskGoal(0))
    assert answers == {ZERO: GoalShare(100, None, None)}
    assert list(silent) == [ONE]


def test_what_a_worker_refuses_is_a_bad_request_of_all(job: Scripted):
    job.add(raising)
    with pytest.raises(BadRequest, match=r"^worker 1 has no goals$"):
        WorkerRpc(job).ask_all(AskGoal(0))


def test_one_worker(job: Scripted):
    job.add(raising)
    job.spawn()
    rpc = WorkerRpc(job)
    assert rpc.ask(ZERO, AskGoal(0)) == GoalShare(100, None, None)
    with pytest.raises(RequestFailed, match=r"^worker 1 has no goals$"):
        rpc.ask(ONE, AskGoal(0))
    with pytest.raises(BadRequest, match="worker 2 has not joined yet; ask again in a moment"):
        rpc.ask(TWO, AskGoal(0))
    with pytest.raises(NoAnswer, match="worker 3 has left"):
        rpc.ask(WorkerId(3), AskGoal(0))
    assert rpc.check(1) == ONE
    with pytest.raises(BadRequest, match="there is no worker 7; there are 0, 1, 2"):
        rpc.check(7)
