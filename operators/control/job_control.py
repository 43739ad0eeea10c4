"""The control plane of a job: what its workers answer, and who asks them.

One object, made alike in every process. In a worker's process it answers requests (`answer`); in the one that
supervises it shows their output and serves the admin endpoint (`controlling`).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from framework.launch.control_protocol import Processes
from framework.launch.signals import Stop
from framework.membership.members import WorkerId
from framework.worker.worker import Worker
from operators.admin.errors import BadRequest, RunDirectoryUnusable
from operators.admin.json_codec import to_json
from operators.admin.run_directory import claim
from operators.admin.server import AdminServer
from operators.control.admin_routes import actions, reads
from operators.control.job_service import JobService
from operators.control.terminal import Terminal, columns, progress_line
from operators.control.worker_control import WorkerControl
from operators.control.worker_messages import read_request
from operators.job.flow import Flow

LINE_S = 0.5
"""How often the progress line is renewed."""


class JobControl:
    """Fills `framework.launch.control_protocol.ControlPlane`."""

    def __init__(self, job: str, directory: Path, *, prefix: bool | None = None) -> None:
        self._job = job
        self._directory = directory
        self._terminal = Terminal(prefix=prefix)
        self.service: JobService | None = None
        """Answers for the job, in the process that supervises it, while it runs."""
        self._workers: dict[WorkerId, WorkerControl] = {}

    # In a worker's process

    def attach(self, flow: Flow) -> None:
        """Let the commands of a job's dataflow go through here; which worker sends them may change."""
        self._of(flow.worker).attach(flow)

    def answer(self, worker: Worker, request: str, arguments: Mapping[str, Any]) -> Any:
        """What a worker answers; in its own thread."""
        return to_json(self._of(worker).answer(read_request(request, arguments)))

    def _of(self, worker: Worker) -> WorkerControl:
        if worker.id not in self._workers:
            self._workers[worker.id] = WorkerControl(worker)
        return self._workers[worker.id]

    # In the supervisor

    def outputs(self, workers: Sequence[WorkerId], *, alone: bool) -> tuple[int | None, int | None]:
        """Where a process's output goes."""
        return self._terminal.outputs(workers, alone=alone)

    @contextmanager
    def controlling(self, processes: Processes, stop: Stop) -> Iterator[None]:
        """Serve the admin endpoint and show progress."""
        self._terminal.on_gone(lambda: stop.request("the reader of the output has gone"))
        service = JobService(self._job, processes)
        with ExitStack() as stack:
            stack.callback(self._terminal.close)
            self._open_admin(service, stack)
            if self._terminal.shows_line:
                stack.enter_context(self._progress(service))
            self.service = service
            yield

    def _open_admin(self, service: JobService, stack: ExitStack) -> None:
        try:
            claimed = claim(self._directory, self._job)
        except RunDirectoryUnusable as error:
            print(f"this job cannot be steered while it runs: {error}", file=sys.stderr)
            return
        stack.callback(claimed.release)
        service.job = claimed.name
        admin = AdminServer(claimed.token, reads=reads(service), actions=actions(service))
        stack.callback(admin.close)
        claimed.publish(host=admin.host, port=admin.port, started_s=time.time())

    @contextmanager
    def _progress(self, service: JobService) -> Iterator[None]:
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(LINE_S):
                with suppress(BadRequest):  # a worker that cannot answer yet
                    self._terminal.show_line(progress_line(service.job, service.progress(), columns()))

        thread = threading.Thread(target=renew, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
