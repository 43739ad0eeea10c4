"""The control plane of a job: what its workers answer, and who asks them.

One object, made alike in every process. In a worker's process it answers requests (`answer`); in the one that
supervises it shows their output and serves the admin endpoint (`controlling`).
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from framework.errors import ProcessesFailed
from framework.launch.control_protocol import Processes
from framework.launch.report import render
from framework.launch.signals import Stop
from framework.membership.members import WorkerId
from framework.worker.worker import Worker
from operators.admin.errors import BadRequest, RunDirectoryUnusable
from operators.admin.json_codec import to_json
from operators.admin.run_directory import JobFolder, claim
from operators.admin.server import AdminServer
from operators.control.admin_routes import actions, reads
from operators.control.job_service import JobService
from operators.control.render import end_line
from operators.control.terminal import Terminal, columns, progress_line
from operators.control.worker_control import WorkerControl
from operators.control.worker_messages import Fed, read_request
from operators.job.flow import Flow

_log = logging.getLogger("hailer.run")

LINE_S = 0.5
"""How often the progress line is renewed."""

LOG_S = 10.0
"""How often the log says how far a job is."""


class JobControl:
    """Fills `framework.launch.control_protocol.ControlPlane`."""

    def __init__(self, job: str, directory: Path, *, prefix: bool | None = None, tells_end: bool = False) -> None:
        """`tells_end`: say what the job has done when it has ended well."""
        self._job = job
        self._tells_end = tells_end
        self.logs_progress = False
        """Whether the log says how far the job is, where no terminal shows it."""
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

    def done(self) -> Any:
        """What the workers of this process have fed the job with."""
        fed = [worker.fed for worker in self._workers.values()]
        return to_json(Fed(max((each.epochs for each in fed), default=0), sum(each.records for each in fed)))

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
            claimed = self._open_admin(service, stack)
            if self._terminal.shows_line:
                stack.enter_context(self._progress(service, LINE_S, self._terminal.show_line))
            elif self.logs_progress:
                stack.enter_context(self._progress(service, LOG_S, _log.info))
            self.service = service
            try:
                yield
            except BaseException as error:
                if claimed is not None:
                    claimed.tell_end(str(error) if isinstance(error, ProcessesFailed) else render(error, 0))
                raise
            done = end_line(service.job, service.running_s, service.fed)
            if claimed is not None:
                claimed.tell_end(None, done)
        if self._tells_end:
            print(f"hailer: {done}", file=sys.stderr, flush=True)

    def _open_admin(self, service: JobService, stack: ExitStack) -> JobFolder | None:
        try:
            claimed = claim(self._directory, self._job)
        except RunDirectoryUnusable as error:
            print(f"this job cannot be steered while it runs: {error}", file=sys.stderr)
            return None
        stack.callback(claimed.release)
        service.job = claimed.name
        admin = AdminServer(claimed.token, reads=reads(service), actions=actions(service))
        stack.callback(admin.close)
        claimed.publish(host=admin.host, port=admin.port, started_s=time.time())
        return claimed

    @contextmanager
    def _progress(self, service: JobService, every_s: float, show: Callable[[str], None]) -> Iterator[None]:
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(every_s):
                with suppress(BadRequest):  # a worker that cannot answer yet
                    show(progress_line(service.job, service.progress(), columns()))

        thread = threading.Thread(target=renew, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
