"""Finding a job that is open to others, also while it is not open yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from framework.errors import UserError, WorldError
from operators.admin.errors import BadRequest, JobUnreachable, NoSuchJob
from operators.admin.run_directory import JobFolder, claim
from operators.admin.server import AdminServer
from operators.broker import endpoint
from operators.broker.endpoint import find_endpoint

OPEN = {
    "run": "1",
    "host": "127.0.0.1",
    "port": 1,
    "secret": "00",
    "encryption": "between machines",
    "inputs": {"lines": None},
    "outputs": {},
}


@contextmanager
def answering(folder: Path, answer: Callable[[int, JobFolder], dict[str, Any]]) -> Iterator[list[int]]:
    """A job that answers who looks for its broker, given how often it was asked before; how often that was."""
    taken, asked = claim(folder, "counts"), [0]

    def broker(_: Mapping[str, Any]) -> dict[str, Any]:
        asked[0] += 1
        return answer(asked[0] - 1, taken)

    admin = AdminServer(taken.token, reads={"broker": broker}, actions={})
    taken.publish(host="127.0.0.1", port=admin.port, started_s=0)
    try:
        yield asked
    finally:
        admin.close()


def busy(_: int, __: JobFolder) -> dict[str, Any]:
    raise WorldError("worker 0 did not get to its next step within 2 s")


def test_a_job_that_is_busy_at_first_is_asked_again(tmp_path: Path):
    with answering(tmp_path, lambda before, taken: busy(before, taken) if before < 3 else OPEN) as asked:
        found = find_endpoint(tmp_path)
    assert (found.name, found.run, found.inputs, found.outputs, asked) == ("counts", "1", {"lines": None}, {}, [4])


def test_a_job_that_ends_meanwhile_is_not_waited_for(tmp_path: Path):
    def end(before: int, taken: JobFolder) -> dict[str, Any]:
        taken.release()
        return busy(before, taken)

    with answering(tmp_path, end) as asked, pytest.raises(NoSuchJob, match="no job runs in"):
        find_endpoint(tmp_path)
    assert asked == [1]


def test_a_job_that_does_not_serve_is_not_asked_again(tmp_path: Path):
    def refuse(_: int, __: JobFolder) -> dict[str, Any]:
        raise UserError("this job is not open")

    with answering(tmp_path, refuse) as asked, pytest.raises(BadRequest, match="this job is not open"):
        find_endpoint(tmp_path)
    assert asked == [1]


def test_a_job_that_stays_busy_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(endpoint, "OPEN_S", 0.0)
    with answering(tmp_path, busy), pytest.raises(JobUnreachable, match="did not get to its next step"):
        find_endpoint(tmp_path)
