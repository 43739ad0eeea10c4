"""Which processes join and leave, and what is said of it in the end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from framework.launch.control_protocol import Supervised
from framework.launch.rpc import RpcClient, RpcLink
from framework.membership.members import WorkerId
from operators.admin.json_codec import to_json
from operators.control.scaling import ProcessChange, Scaling, change_to
from operators.control.worker_messages import RescaleCost, RescaleShare
from operators.control.worker_rpc import WorkerRpc

WAIT_S = 20.0


@pytest.mark.parametrize(
    ("count", "present", "change"),
    [
        (3, [0], ProcessChange(joins=2)),
        (3, [0, 1, 4], ProcessChange()),
        (2, [0, 1, 4, 7], ProcessChange(leaves=(7, 4))),
        (1, [4, 0, 7], ProcessChange(leaves=(7, 4))),
    ],
)
def test_the_highest_leave_first_and_the_first_stays(count: int, present: list[int], change: ProcessChange):
    assert change_to(count, present) == change


class Scripted:
    """A job of one process, and one that joins as soon as it is started; each answers what its script says next."""

    def __init__(self) -> None:
        self.running: list[Supervised] = []

    def processes(self) -> Sequence[Supervised]:
        return self.running

    def spawn(self) -> Supervised:
        return self.add({"AskRescale": [received(0), received(16), received(20)]})

    def add(self, script: dict[str, list[Any]]) -> Supervised:
        ours, theirs = socket.socketpair()
        link = RpcLink(theirs)

        def answer() -> None:
            while (message := link.receive()) is not None:
                answers = script[message["request"]]
                link.send({"id": message["id"], "answer": answers.pop(0) if len(answers) > 1 else answers[0]})
            link.close()

        threading.Thread(target=answer, daemon=True).start()
        number = len(self.running)
        process = Supervised(number, 4242 + number, [WorkerId(number)], RpcClient(RpcLink(ours)))
        process.joined.update(process.workers)
        self.running.append(process)
        return process


@contextmanager
def scripted(script: dict[str, list[Any]]) -> Iterator[WorkerRpc]:
    processes = Scripted()
    processes.add(script)
    try:
        yield WorkerRpc(processes)
    finally:
        for process in processes.running:
            process.rpc.close()


def received(count: int, cost: RescaleCost | None = None) -> Any:
    return to_json(RescaleShare(count, None, cost))


def moved(bins: int, *joined: int) -> RescaleCost:
    return RescaleCost(tuple(map(WorkerId, joined)), (), settled=True, bins_moved=bins, stall_s_max=0.01)


def test_state_that_came_to_a_joiner_after_it_was_asked_last_is_counted():
    """Workers answer one request at different moments: the joiner, in the same look, before its last bins came."""
    first = [received(0, moved(0)), received(0, moved(5, 1))]
    with scripted({"BeginRescale": [None], "AskRescale": first}) as rpc:
        scaling = Scaling(rpc, "scale to 2", ProcessChange(joins=1))
        scaling.start()
        assert scaling.finished.wait(WAIT_S)
        state = scaling.state()
    assert (state.failure, state.joined, state.bins_moved, state.state_bytes) == (None, (1,), 5, 20)
