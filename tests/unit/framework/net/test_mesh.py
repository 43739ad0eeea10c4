"""A mesh comes up, or says what is in its way."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from framework.errors import (
    ConfigError,
    JobStopped,
    PeerRefused,
    PeersUnreachable,
    PortTaken,
    SecretMismatch,
)
from framework.membership.members import WorkerId
from framework.net.mesh import Mesh, start_mesh
from framework.wire.credentials import Credentials
from framework.wire.messages import Data, Goodbye
from tests.peers import ssh_server

OURS = Credentials(b"s" * 32)


def listeners(count: int) -> tuple[list[socket.socket], list[tuple[str, int]]]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    return sockets, [listener.getsockname() for listener in sockets]


def free_address() -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address: tuple[str, int] = listener.getsockname()
    return address


def resources() -> tuple[int, int]:
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def start_all(processes: int, threads: int) -> list[Mesh]:
    sockets, addresses = listeners(processes)
    with ThreadPoolExecutor(processes) as pool:
        futures: list[Future[Mesh]] = [
            pool.submit(start_mesh, process, threads, addresses, OURS, listener=sockets[process])
            for process in reversed(range(processes))
        ]
        return [future.result() for future in futures]


@pytest.mark.parametrize(("processes", "threads"), [(1, 1), (1, 3), (2, 1), (3, 2)])
def test_every_worker_reaches_every_other_and_nothing_leaks(processes: int, threads: int) -> None:
    before = resources()
    meshes = start_all(processes, threads)
    endpoints = {worker: endpoint for mesh in meshes for worker, endpoint in mesh.endpoints.items()}
    assert set(endpoints) == set(range(processes * threads))
    for worker, endpoint in endpoints.items():
        assert endpoint.peers == set(endpoints) - {worker}
        for peer in endpoint.peers:
            endpoint.send(peer, Data(0, worker, [peer]))
            endpoint.send(peer, Goodbye())
        endpoint.flush()
    for worker, endpoint in endpoints.items():
        received: list[Any] = []
        deadline = time.monotonic() + 20
        while len(received) < 2 * len(endpoint.peers) and time.monotonic() < deadline:
            endpoint.park(1)
            received += endpoint.receive()
        expected = [(peer, part) for peer in endpoint.peers for part in (Data(0, peer, [worker]), Goodbye())]
        assert sorted(received, key=lambda item: item[0]) == sorted(expected, key=lambda item: item[0])
    for mesh in meshes:
        mesh.close()
        mesh.close()
    assert resources() == before


def test_one_process_opens_no_port() -> None:
    mesh = start_mesh(0, 2, [("192.0.2.1", 1)], OURS)
    assert set(mesh.endpoints) == {0, 1}
    mesh.close()


def test_a_taken_port_is_named() -> None:
    before = resources()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
        with pytest.raises(PortTaken, match=rf"127\.0\.0\.1:{address[1]}.*another job.*--base-port"):
            start_mesh(0, 1, [address, free_address()], OURS)
    assert resources() == before


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1:1"):
        start_mesh(0, 1, [("192.0.2.1", 1), free_address()], OURS)


def test_missing_processes_are_named_with_their_addresses() -> None:
    before = resources()
    lower, own, higher = free_address(), free_address(), free_address()
    with pytest.raises(PeersUnreachable) as caught:
        start_mesh(1, 1, [lower, own, higher], OURS, timeout_s=0.2)
    assert str(caught.value) == (
        f"process 0 at 127.0.0.1:{lower[1]} (Connection refused), process 2 at 127.0.0.1:{higher[1]} "
        f"did not answer within 0.2 s; were they started, and with the same hosts and ports?"
    )
    assert resources() == before


def test_a_peer_that_listens_but_never_answers_is_named() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(PeersUnreachable, match=r"process 0 at .* \(no answer in time\)"),
    ):
        start_mesh(1, 1, [silent.getsockname(), free_address()], OURS, timeout_s=0.2)


def test_what_is_not_a_hailer_process_is_found_out_at_once() -> None:
    with (
        ssh_server() as address,
        pytest.raises(PeersUnreachable, match=r"process 0 at .* not a Hailer process"),
    ):
        start_mesh(1, 1, [address, free_address()], OURS)


def test_a_wait_is_announced(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framework.net.mesh.ANNOUNCE_AFTER_S", 0.05)
    missing = free_address()
    with caplog.at_level(logging.WARNING, "hailer.net"), pytest.raises(PeersUnreachable):
        start_mesh(0, 1, [free_address(), missing], OURS, timeout_s=0.4)
    assert [record.getMessage() for record in caplog.records] == [f"waiting for process 1 at 127.0.0.1:{missing[1]}"]


def test_a_stop_ends_the_wait_within_moments() -> None:
    before = resources()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for addresses in ([silent.getsockname(), free_address()], [free_address(), free_address()]):
            asked = iter([False, False, True])
            begin = time.monotonic()
            with pytest.raises(JobStopped):
                start_mesh(1, 1, addresses, OURS, should_stop=lambda asked=asked: next(asked, True))  # type: ignore[misc]
            assert time.monotonic() - begin < 5
    assert resources() == before


def join_first(own: dict[str, Any], other: dict[str, Any]) -> tuple[BaseException | None, BaseException | None]:
    """Start process 0 as `own` and process 1 as `other`; what each of them raised."""
    sockets, addresses = listeners(4)

    def start(process: int, **wishes: Any) -> BaseException | None:
        spare = wishes.pop("processes", 2)
        try:
            start_mesh(
                process,
                wishes.pop("threads", 1),
                addresses[:spare],
                wishes.pop("credentials", OURS),
                listener=sockets[process],
                timeout_s=1,
                **wishes,
            ).close()
        except Exception as error:
            return error
        return None

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(start, 0, **own)
        second = pool.submit(start, 1, **other)
        outcome = first.result(), second.result()
    for listener in sockets:
        listener.close()
    return outcome


@pytest.mark.parametrize(
    ("wishes", "reason"),
    [
        ({"processes": 3}, "started for 3 processes of 1 thread, but this cluster has 2 processes of 1 thread"),
        (
            {"credentials": replace(OURS, run="5e1f")},
            "it is of run 5e1f, and this process was started by hand: another job",
        ),
        ({"threads": 2}, "started for 2 processes of 2 threads, but this cluster has 2 processes of 1 thread"),
    ],
)
def test_a_process_that_does_not_belong_is_told_why(wishes: dict[str, Any], reason: str) -> None:
    first, second = join_first({}, wishes)
    assert isinstance(second, PeerRefused)
    assert "process 0 at 127.0.0.1:" in str(second)
    assert reason in str(second)
    assert isinstance(first, PeersUnreachable)
    assert reason in str(first)


def test_processes_with_different_secrets_do_not_join() -> None:
    first, second = join_first({}, {"credentials": Credentials(b"t" * 32)})
    assert isinstance(second, SecretMismatch)
    assert "process 0 at 127.0.0.1:" in str(second)
    assert "HAILER_SECRET_FILE" in str(second)
    assert isinstance(first, PeersUnreachable)


def test_a_second_process_of_the_same_index_is_refused() -> None:
    sockets, addresses = listeners(2)
    with ThreadPoolExecutor(2) as pool:
        meshes = list(
            pool.map(lambda process: start_mesh(process, 1, addresses, OURS, listener=sockets[process]), range(2))
        )
    with pytest.raises(PeerRefused, match="worker 1 has a link to worker 0 already; is a process started twice"):
        start_mesh(1, 1, [addresses[0], free_address()], OURS)
    assert meshes[0].endpoints[WorkerId(0)].receive() == []
    for mesh in meshes:
        mesh.close()
