"""Calls a running job's admin endpoint, for the `hailer` command and whoever feeds or reads the job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from operators.admin.errors import BadRequest, JobUnreachable
from operators.admin.run_directory import find_job

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class JobClient:
    """A running job, from outside."""

    name: str
    host: str
    port: int
    token: str

    @staticmethod
    def of(directory: Path, job: str | None) -> JobClient:
        """The job that runs in a directory."""
        found, token = find_job(directory, job)
        return JobClient(found.name, found.host, found.port, token)

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
            raise JobUnreachable(
                f"job {self.name!r} does not answer at {self.host}:{self.port} ({error!r}); it may have just ended"
            ) from error
        finally:
            connection.close()
        if response.status != 200:
            kind = JobUnreachable if response.status >= 500 else BadRequest
            raise kind(str(answer.get("error", response.reason)))
        found: dict[str, Any] = answer
        return found
