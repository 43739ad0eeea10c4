"""Calls the workers of a job, one by one or all at once. Joiners are called once they are members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from framework.errors import NoAnswer, RequestFailed
from framework.launch.control_protocol import Processes, Supervised
from framework.launch.rpc import PendingReply
from framework.membership.members import WorkerId
from operators.admin.errors import BadRequest
from operators.admin.json_codec import to_json
from operators.control.worker_messages import Request, read_answer

WITHIN_S = 2.0
"""How long a worker has to get to its next step."""

_NONE: Mapping[WorkerId, str] = {}
T = TypeVar("T")


class WorkerRpc:
    """Calls to all workers of a job, each answered by the worker's `WorkerControl`."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self.first: Supervised = processes.processes()[0]
        """The process that feeds the job: when it ends, so does the job."""

    @property
    def commanding(self) -> WorkerId:
        """The worker that sends the job's commands."""
        return self.first.workers[0]

    @property
    def processes(self) -> Sequence[Supervised]:
        """The processes as of now, joiners included."""
        return self._processes.processes()

    @property
    def workers(self) -> dict[WorkerId, Supervised]:
        """The process of each worker, as of now, joiners included."""
        return {worker: process for process in self.processes for worker in process.workers}

    def coming(self, count: int) -> Sequence[WorkerId]:
        """The workers that the next `count` processes will have."""
        return self._processes.coming(count)

    def spawn(self) -> Supervised:
        """Start another process."""
        return self._processes.spawn()

    def check(self, worker: int) -> WorkerId:
        """Raise unless there is such a worker."""
        if worker not in self.workers:
            raise BadRequest(f"there is no worker {worker}; there are {', '.join(map(str, sorted(self.workers)))}")
        return WorkerId(worker)

    def ask(self, worker: WorkerId, request: Request[T]) -> T:
        """What a worker answers; `NoAnswer` or `RequestFailed` if it does not."""
        process = self.workers.get(worker)
        if process is None:
            raise NoAnswer(f"worker {worker} has left")
        if not process.member:
            raise BadRequest(f"worker {worker} has not joined yet; ask again in a moment")
        return read_answer(request, _begin(process, worker, request).result())

    def ask_all(
        self, request: Request[T], *, but: Mapping[WorkerId, str] = _NONE
    ) -> tuple[dict[WorkerId, T], dict[WorkerId, str]]:
        """What the members answer, and why those that do not do not; those in `but` are not asked again."""
        asked = {
            worker: _begin(process, worker, request)
            for worker, process in self.workers.items()
            if worker not in but and process.member
        }
        answers: dict[WorkerId, T] = {}
        silent = dict(but)
        for worker, pending in asked.items():
            try:
                answers[worker] = read_answer(request, pending.result())
            except NoAnswer as error:
                silent[worker] = str(error)
            except RequestFailed as error:
                raise BadRequest(str(error)) from error
        return answers, silent


def _begin(process: Supervised, worker: WorkerId, request: Request[T]) -> PendingReply:
    return process.rpc.begin(worker, type(request).__name__, to_json(request), within_s=WITHIN_S)
