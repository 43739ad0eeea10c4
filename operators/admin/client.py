"""Calls a running job's admin endpoint, for the `hailer` command and whoever feeds or reads the job."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from operators.admin.errors import BadRequest, JobEnded, JobUnreachable
from operators.admin.run_directory import RunningJob, find_job, how_it_ended, is_running

TIMEOUT_S = 30.0
ENDING_S = 20.0
"""How long a job may take to end all of its processes, and to say how."""
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class JobClient:
    """A running job, from outside."""

    name: str
    host: str
    port: int
    token: str
    run: tuple[Path, RunningJob] | None = None
    """The directory that it was found in, and what that says of it."""

    @staticmethod
    def of(directory: Path, job: str | None) -> JobClient:
        """The job that runs in a directory."""
        found, token = find_job(directory, job)
        return JobClient(found.name, found.host, found.port, token, (directory, found))

    def get(self, name: str, **arguments: str) -> dict[str, Any]:
        """Ask."""
        return self._call("GET", f"/{name}?{urlencode(arguments)}", None)

    def post(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Do."""
        return self._call("POST", f"/{name}", json.dumps(arguments).encode())

    def _call(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        connection = HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {self.token}"})
            response = connection.getresponse()
            answer = json.loads(response.read())
        except (OSError, HTTPException, ValueError) as error:
            self._check_ended()
            raise JobUnreachable(
                f"job {self.name!r} does not answer at {self.host}:{self.port} ({error!r}); it may have just ended"
            ) from error
        finally:
            connection.close()
        if response.status == HTTPStatus.GONE:
            self._check_ended()
        if response.status != 200:
            kind = JobUnreachable if response.status >= 500 else BadRequest
            raise kind(str(answer.get("error", response.reason)))
        found: dict[str, Any] = answer
        return found

    def _check_ended(self) -> None:
        """Raise what the job's own report is, once it has ended; it has some seconds for that."""
        if self.run is None:
            return
        directory, job = self.run
        deadline_s = time.monotonic() + ENDING_S
        while time.monotonic() < deadline_s:
            alive, ended = is_running(directory, job), how_it_ended(directory, job)
            if ended is not None and ended.report:
                raise JobEnded(f"job {self.name!r} has ended meanwhile, and reported:\n{ended.report}")
            if ended is not None:
                raise JobEnded(f"job {self.name!r} has ended meanwhile: it went through all of its input, and well")
            if not alive:
                raise JobEnded(f"job {self.name!r} has ended meanwhile, without a word: process {job.pid} is gone")
            time.sleep(POLL_S)
