"""The workers of a job, to be asked one by one or all at once. Joiners are asked once they are members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framework.launch.control_protocol import Processes, Supervised
from framework.launch.rpc import NoAnswer, RequestFailed
from framework.membership.members import WorkerId
from operators.admin.errors import BadRequest

WITHIN_S = 2.0
"""How long a worker has to get to its next step."""

_NONE: Mapping[WorkerId, str] = {}


class WorkerRpc:
    """All workers of a job."""

    def __init__(self, workforce: Processes) -> None:
        self._workforce = workforce
        self.first: Supervised = workforce.processes()[0]
        """The process that feeds the job: when it ends, so does the job."""

    @property
    def commanding(self) -> WorkerId:
        """The worker that sends the job's commands."""
        return self.first.workers[0]

    @property
    def processes(self) -> Sequence[Supervised]:
        """The processes as of now, joiners included."""
        return self._workforce.processes()

    @property
    def workers(self) -> dict[WorkerId, Supervised]:
        """The process of each worker, as of now, joiners included."""
        return {worker: process for process in self.processes for worker in process.workers}

    def spawn(self) -> Supervised:
        """Start another process."""
        return self._workforce.spawn()

    def check(self, worker: int) -> WorkerId:
        """Raise unless there is such a worker."""
        if worker not in self.workers:
            raise BadRequest(f"there is no worker {worker}; there are {', '.join(map(str, sorted(self.workers)))}")
        return WorkerId(worker)

    def ask(self, worker: WorkerId, request: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """What a worker answers; `NoAnswer` or `RequestFailed` if it does not."""
        process = self.workers.get(worker)
        if process is None:
            raise NoAnswer(f"worker {worker} has left")
        if not process.member:
            raise BadRequest(f"worker {worker} has not joined yet; ask again in a moment")
        return process.rpc.ask(worker, request, arguments, within_s=WITHIN_S)

    def ask_all(
        self, request: str, arguments: Mapping[str, Any] | None = None, *, but: Mapping[WorkerId, str] = _NONE
    ) -> tuple[dict[WorkerId, Any], dict[WorkerId, str]]:
        """What the members answer, and why those that do not do not; those in `but` are not asked again."""
        asked = {
            worker: process.rpc.begin(worker, request, arguments, within_s=WITHIN_S)
            for worker, process in self.workers.items()
            if worker not in but and process.member
        }
        answers: dict[WorkerId, Any] = {}
        silent = dict(but)
        for worker, pending in asked.items():
            try:
                answers[worker] = pending.result()
            except NoAnswer as error:
                silent[worker] = str(error)
            except RequestFailed as error:
                raise BadRequest(str(error)) from error
        return answers, silent
