"""Requests go down a link, are executed in the worker's thread, and answers come up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from framework.errors import NoAnswer, RequestFailed, UserError
from framework.launch import rpc
from framework.launch.execute import execute
from framework.launch.rpc import LINE_BYTES_MAX, RpcClient, RpcLink, RpcServer
from framework.membership.members import WorkerId
from framework.worker.worker import Worker
from operators import Input

WITHIN_S = 20.0


def answer(worker: Worker, request: str, arguments: Mapping[str, Any]) -> Any:
    match request:
        case "where":
            return [worker.id, threading.current_thread().name, worker.stepping]
        case "echo":
            return dict(arguments)
        case "refuse":
            raise UserError("there is no such bin; name one of 0 to 15")
        case "stumble":
            return 1 // 0
        case "much":
            return "x" * LINE_BYTES_MAX
    return object()


@contextmanager
def linked(worker: Worker) -> Iterator[RpcClient]:
    """A worker that answers, and the other end."""
    ours, theirs = socket.socketpair()
    RpcServer(RpcLink(theirs), [worker], answer).start()
    client = RpcClient(RpcLink(ours))
    try:
        yield client
    finally:
        client.close()


def asking(*requests: tuple[str, Mapping[str, Any]]) -> list[Any]:
    """Ask a worker that steps; what came of each request, in order."""

    def main(worker: Worker) -> list[Any]:
        numbers = Input[int]()
        with worker.dataflow() as scope:
            numbers.stream(scope)
        outcomes: list[Any] = []

        def ask(client: RpcClient) -> None:
            for request, arguments in requests:
                try:
                    outcomes.append(client.ask(worker.id, request, arguments, within_s=WITHIN_S))
                except (NoAnswer, RequestFailed) as error:
                    outcomes.append(error)

        with linked(worker) as client:
            thread = threading.Thread(target=ask, args=[client])
            thread.start()
            while thread.is_alive():
                worker.step_or_park(0.01)
            thread.join()
        return outcomes

    return execute(main)[0]


def test_a_request_is_executed_in_the_workers_thread():
    [where, echo] = asking(("where", {}), ("echo", {"bins": [1, 2], "to": "β"}))
    assert where == [0, threading.current_thread().name, True]
    assert echo == {"bins": [1, 2], "to": "β"}


def test_what_a_request_runs_into_is_its_answer_and_the_job_goes_on():
    refused, stumbled, much, nonsense, still = asking(
        ("refuse", {}), ("stumble", {}), ("much", {}), ("object", {}), ("echo", {"n": 1})
    )
    assert str(refused) == "there is no such bin; name one of 0 to 15"
    assert str(stumbled).startswith("worker 0 failed to answer 'stumble': ZeroDivisionError")
    assert "exceeds the limit" in str(much)
    assert "is not JSON" in str(nonsense)
    assert still == {"n": 1}


def test_the_last_answer_is_sent_before_its_process_ends():
    """That ends the job, say: then the answer and the end of its worker race."""

    def main(worker: Worker) -> Any:
        executed = threading.Event()

        def much(worker: Worker, request: str, arguments: Mapping[str, Any]) -> Any:
            executed.set()
            return "x" * 5_000_000  # more than a socket takes at once

        ours, theirs = socket.socketpair()
        link, client = RpcLink(theirs), RpcClient(RpcLink(ours))
        server = RpcServer(link, [worker], much)
        server.start()
        pending = client.begin(worker.id, "much", within_s=WITHIN_S)
        while not executed.is_set():
            worker.step_or_park(WITHIN_S)
        server.finish()
        link.close()
        try:
            return pending.result()
        finally:
            client.close()

    assert execute(main)[0] == "x" * 5_000_000


def test_a_worker_that_does_not_step_in_time_does_nothing():
    def main(worker: Worker) -> list[str]:
        executed: list[str] = []

        def note(worker: Worker, request: str, arguments: Mapping[str, Any]) -> Any:
            executed.append(request)

        ours, theirs = socket.socketpair()
        RpcServer(RpcLink(theirs), [worker], note).start()
        client = RpcClient(RpcLink(ours))
        pending = client.begin(worker.id, "late", within_s=0.0)
        with pytest.raises(NoAnswer, match="worker 0 did not get to its next step within 0 s"):
            pending.result()
        with worker.dataflow():
            pass
        worker.step()
        client.close()
        return executed

    assert execute(main) == [[]]


def test_a_request_that_has_timed_out_is_forgotten_and_a_late_answer_to_it_does_no_harm(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(rpc, "GRACE_S", 0.0)
    ours, theirs = socket.socketpair()
    client, worker = RpcClient(RpcLink(ours)), RpcLink(theirs)
    for _ in range(5):
        with suppress(NoAnswer):
            client.ask(WorkerId(3), "status", within_s=0.0)
    assert len(client._waiting) == 0
    pending = client.begin(WorkerId(3), "status", within_s=WITHIN_S)
    for number in range(6):
        worker.send({"id": number, "answer": number})
    assert pending.result() == 5
    client.close()
    worker.close()


def test_an_end_that_is_gone_is_told():
    ours, theirs = socket.socketpair()
    client = RpcClient(RpcLink(ours))
    pending = client.begin(WorkerId(3), "status", within_s=WITHIN_S)
    theirs.close()
    with pytest.raises(NoAnswer, match="the process of worker 3 has ended, or does not listen"):
        pending.result()
    with pytest.raises(NoAnswer, match="the process of worker 3 has ended"):
        client.ask(WorkerId(3), "status", within_s=WITHIN_S)
    client.close()


def test_a_process_that_reads_nothing_is_given_up():
    ours, theirs = socket.socketpair()
    client = RpcClient(RpcLink(ours, send_s_max=1))
    pending = [client.begin(WorkerId(3), "status", {"much": "x" * 100_000}, within_s=0.0) for _ in range(20)]
    with pytest.raises(NoAnswer, match="does not listen"):
        pending[-1].result()
    theirs.close()


@pytest.mark.parametrize("sent", [b"no json\n", b"[1]\n", b'{"id": 1}', b"x" * 100_000])
def test_what_is_no_object_ends_the_link(sent: bytes):
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(sent)
    link = RpcLink(ours)
    assert link.receive() is None
    link.close()
