"""The admin endpoint answers who holds the token, in JSON, whatever it is sent."""

from __future__ import annotations

import errno
import json
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from socketserver import TCPServer
from typing import Any

import pytest

from framework.errors import UserError, WorldError
from operators.admin import server
from operators.admin.client import JobClient
from operators.admin.errors import BadRequest, JobEnded, JobUnreachable
from operators.admin.run_directory import claim
from operators.admin.server import BODY_BYTES_MAX, CONNECTIONS_MAX, AdminServer

TOKEN = "a-token"


def echo(arguments: Mapping[str, Any]) -> Any:
    return {"given": dict(arguments)}


def refuse(arguments: Mapping[str, Any]) -> Any:
    raise UserError("there is no bin 300; the bins are 0 to 255")


def fail(arguments: Mapping[str, Any]) -> Any:
    raise WorldError("worker 1 did not answer")


def stumble(arguments: Mapping[str, Any]) -> Any:
    return dict(arguments)["3"]


@pytest.fixture
def admin() -> Iterator[AdminServer]:
    served = AdminServer(
        TOKEN, reads={"echo": echo, "fail": fail, "stumble": stumble}, actions={"echo": echo, "refuse": refuse}
    )
    yield served
    served.close()


def call(
    admin: AdminServer, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, Any]]:
    connection = HTTPConnection("127.0.0.1", admin.port, timeout=10)
    try:
        connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}", **headers})
        response = connection.getresponse()
        assert response.headers["Content-Type"] == "application/json"
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_a_system_without_descriptors_is_not_asked_again_and_again(admin: AdminServer, monkeypatch: pytest.MonkeyPatch):
    accept, failures, pauses = TCPServer.get_request, [errno.EMFILE, errno.ENFILE, errno.EMFILE], list[float]()

    def accepting(self: TCPServer) -> Any:
        if failures:
            raise OSError(failures.pop(), "too many open files")
        return accept(self)

    monkeypatch.setattr(TCPServer, "get_request", accepting)
    monkeypatch.setattr(time, "sleep", pauses.append)
    assert call(admin, "GET", "/echo") == (200, {"given": {}})
    assert pauses == [server.ACCEPT_PAUSE_S] * 3


def test_questions_and_actions_are_answered(admin: AdminServer):
    assert call(admin, "GET", "/echo?operator=a%20b") == (200, {"given": {"operator": "a b"}})
    assert call(admin, "POST", "/echo", b'{"bins": [1]}') == (200, {"given": {"bins": [1]}})


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "said"),
    [
        ("GET", "/echo", None, {"Authorization": "Bearer another"}, 401, "token is missing or wrong"),
        ("GET", "/echo", None, {"Authorization": ""}, 401, "token is missing or wrong"),
        ("GET", "/echo", None, {"Authorization": "Bearer ä"}, 401, "token is missing or wrong"),
        ("GET", "/nothing", None, {"Authorization": ""}, 401, "token is missing or wrong"),
        ("GET", "/echo", None, {"Host": "evil.example:80"}, 403, "called by its address"),
        ("GET", "/", None, {}, 404, "there is no GET /; there are /echo"),
        ("GET", "/../etc/passwd", None, {}, 404, "there is no GET"),
        ("GET", "/refuse", None, {}, 404, "there is no GET /refuse"),
        ("POST", "/refuse", b"{}", {}, 400, "there is no bin 300"),
        ("POST", "/echo", b"[1]", {}, 400, "not a JSON object"),
        ("POST", "/echo", b"{", {}, 400, "not a JSON object"),
        ("POST", "/echo", b"[" * 100_000, {}, 400, "not a JSON object"),
        ("POST", "/echo", b"", {"Content-Length": str(BODY_BYTES_MAX + 1)}, 413, "at most"),
        ("POST", "/echo", b"", {"Content-Length": "-1"}, 411, "Content-Length"),
        ("GET", "/fail", None, {}, 503, "worker 1 did not answer"),
        ("GET", "/stumble", None, {}, 500, "a mistake in Hailer: KeyError('3')"),
        ("DELETE", "/echo", None, {}, 501, "Unsupported method"),
        ("GET", "/" + "x" * 70_000, None, {}, 414, "URI"),
    ],
)
def test_what_is_refused(
    admin: AdminServer, method: str, path: str, body: bytes | None, headers: dict[str, str], status: int, said: str
):
    code, answer = call(admin, method, path, body, **headers)
    assert code == status
    assert said in answer["error"]


def test_garbage_and_idlers_do_no_harm(admin: AdminServer):
    idle = [socket.create_connection(("127.0.0.1", admin.port)) for _ in range(CONNECTIONS_MAX + 5)]
    assert idle[-1].recv(1) == b""  # one too many: closed at once
    for connection in idle:
        connection.sendall(b"\x00\xff nonsense\r\n\r\n") if connection is idle[0] else None
        connection.close()
    for _ in range(100):
        try:
            assert call(admin, "GET", "/echo") == (200, {"given": {}})
            return
        except (ConnectionError, OSError):
            continue
    raise AssertionError("the endpoint did not recover")


def test_slow_connections_hold_nobody_up_for_long_however_they_keep_busy(
    admin: AdminServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server, "REQUEST_S_MAX", 0.1)
    slow = [socket.create_connection(("127.0.0.1", admin.port)) for _ in range(CONNECTIONS_MAX)]
    for connection in slow:
        connection.sendall(b"GET /echo HTTP/1.1\r\n")
    for connection in slow:
        with connection, suppress(ConnectionError):
            for _ in range(1_000):  # a character after the other of a header that never ends
                connection.sendall(b"x")
                if select.select([connection], [], [], 0.01)[0]:
                    assert connection.recv(1) == b""
                    break
            else:
                pytest.fail("it is waited for although it never ends")
    assert call(admin, "GET", "/echo") == (200, {"given": {}})


def test_connections_for_which_there_is_no_thread_leave_room_for_others(admin: AdminServer):
    usual = threading.stack_size(1 << 46)  # more than there is: no thread can be started
    try:
        for _ in range(CONNECTIONS_MAX):
            with socket.create_connection(("127.0.0.1", admin.port)) as connection:
                assert connection.recv(1) == b""
    finally:
        threading.stack_size(usual)
    assert call(admin, "GET", "/echo") == (200, {"given": {}})


def test_the_client_finds_a_job_and_tells_its_errors_apart(admin: AdminServer, tmp_path: Path):
    claimed = claim(tmp_path, "words")
    claimed.publish(host=admin.host, port=admin.port, started_s=0.0)
    with pytest.raises(BadRequest, match="token is missing or wrong"):
        JobClient.of(tmp_path, None).get("echo")
    client = JobClient("words", admin.host, admin.port, TOKEN)
    assert client.get("echo", operator="x") == {"given": {"operator": "x"}}
    with pytest.raises(BadRequest, match="there is no bin 300"):
        client.post("refuse", {})
    with pytest.raises(JobUnreachable, match="worker 1 did not answer"):
        client.get("fail")
    admin.close()
    with pytest.raises(JobUnreachable, match=r"does not answer at 127\.0\.0\.1"):
        client.get("echo")


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (None, "job 'words' has ended meanwhile: it went through all of its input, and well"),
        ("job failed: it", "job 'words' has ended meanwhile, and reported:\njob failed: it"),
    ],
)
@pytest.mark.parametrize("answers", [True, False])
def test_a_client_of_a_job_that_ends_gets_the_jobs_report(tmp_path: Path, report: str | None, said: str, answers: bool):
    """Whether its endpoint still answers that it is about to end, or does no more."""

    def end(_: Mapping[str, Any]) -> Any:
        raise JobEnded("the job is about to end")

    claimed = claim(tmp_path, "words")
    server = AdminServer(claimed.token, reads={"plan": end}, actions={})
    claimed.publish(host=server.host, port=server.port, started_s=0.0)
    client = JobClient.of(tmp_path, None)
    if not answers:
        server.close()
    claimed.tell_end(report)
    claimed.release()
    with pytest.raises(JobEnded) as caught:
        client.get("plan")
    assert str(caught.value) == said
    if answers:
        server.close()


def test_a_client_of_a_job_that_was_killed_is_told(tmp_path: Path):
    claimed = claim(tmp_path, "words")
    claimed.publish(host="127.0.0.1", port=1, started_s=0.0)
    client = JobClient.of(tmp_path, None)
    assert client.run is not None
    directory, job = client.run
    gone = replace(client, run=(directory, replace(job, run="1")))
    with pytest.raises(JobEnded, match=r"ended meanwhile, without a word: process \d+ is gone"):
        gone.get("plan")
