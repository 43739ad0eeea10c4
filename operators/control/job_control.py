"""The control plane of a job that `hailer run` has started: what its workers answer, and who asks them.

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
from framework.progress.order import EPOCH_MAX
from framework.worker.worker import Worker
from operators.admin.errors import BadRequest, RunDirectoryUnusable
from operators.admin.run_directory import claim
from operators.admin.server import AdminServer
from operators.control.job_service import JobService
from operators.control.plan_driver import PlanDriver
from operators.control.rescale_watch import RescaleWatch, check_may_leave, check_rescalable, share
from operators.control.terminal import Terminal, columns, progress_line
from operators.control.worker_status import Meter, explain, pulse, status
from operators.job.flow import Flow
from operators.job.served import ServedJob
from routing.migration.plan import Plan
from routing.registry import commanded_on

LINE_S = 0.5
"""How often the progress line is renewed."""


class JobControl:
    """Fills `framework.launch.control_protocol.ControlPlane`."""

    def __init__(self, job: str, directory: Path, *, prefix: bool | None = None) -> None:
        self._job = job
        self._directory = directory
        self._terminal = Terminal(prefix=prefix)
        self.overseer: JobService | None = None
        """Answers for the job, in the process that supervises it, while it runs."""
        self._meters: dict[WorkerId, Meter] = {}
        self._steerings: dict[WorkerId, PlanDriver] = {}
        self._flows: dict[WorkerId, Flow] = {}
        self._watches: dict[WorkerId, RescaleWatch] = {}

    # In a worker's process

    def attach(self, flow: Flow) -> None:
        """Let the commands of a job's dataflow go through here; which worker sends them may change."""
        self._steerings[flow.worker.id] = PlanDriver(flow)
        self._flows[flow.worker.id] = flow

    def answer(self, worker: Worker, request: str, arguments: Mapping[str, Any]) -> Any:
        """What a worker answers; in its own thread."""
        steering = self._steerings.get(worker.id)
        plan = steering.state() if steering is not None else None
        match request:
            case "pulse":
                return {**pulse(worker), "plan": plan}
            case "status":
                return {**status(worker, self._meter(worker)), "plan": plan}
            case "explain":
                return explain(worker, arguments.get("operator"))
            case "bins":
                return [
                    {
                        "name": operator.name,
                        "owners": list(operator.table.owners),
                        "ahead": list(operator.table.owners_at(EPOCH_MAX)) if operator.table.ready else [],
                        "keys": operator.keys_per_bin(),
                        "shipped_bytes": operator.shipped_bytes(),
                    }
                    for operator in commanded_on(worker)
                ]
            case "plan":
                shipped_bytes = sum(operator.shipped_bytes() for operator in commanded_on(worker))
                return {"plan": plan, "shipped_bytes": shipped_bytes}
            case "rescale":
                return share(worker, self._watches.get(worker.id))
            case "portal":
                return None if steering is None else self._served(worker).describe()
        if steering is None:
            raise BadRequest(f"the dataflow of worker {worker.id} is not built yet; ask again in a moment")
        match request:
            case "run plan":
                return steering.start(Plan.from_dict(arguments["plan"]), arguments["gap_s"])
            case "cancel":
                return steering.cancel()
            case "begin rescale":
                check_rescalable(worker)
                self._watches[worker.id] = RescaleWatch(self._flows[worker.id])
                return {"plan": plan}
            case "finish":
                return self._served(worker).finish()
            case "may leave":
                return check_may_leave(self._flows[worker.id])
            case "leave":
                check_may_leave(self._flows[worker.id])
                return worker.ask_to_leave()
        raise BadRequest(f"a worker knows no request {request!r}")

    def _served(self, worker: Worker) -> ServedJob:
        served = self._flows[worker.id].serving
        if served is None:
            raise BadRequest("this job is not open to others; start it with --serve")
        return served

    def _meter(self, worker: Worker) -> Meter:
        def forget() -> None:
            del self._meters[worker.id]

        if worker.id not in self._meters:
            self._meters[worker.id] = Meter.start(worker, ended=forget)
        return self._meters[worker.id].look()

    # In the supervisor

    def outputs(self, workers: Sequence[WorkerId], *, alone: bool) -> tuple[int | None, int | None]:
        """Where a process's output goes."""
        return self._terminal.outputs(workers, alone=alone)

    @contextmanager
    def controlling(self, processes: Processes, stop: Stop) -> Iterator[None]:
        """Serve the admin endpoint and show progress."""
        self._terminal.on_gone(lambda: stop.request("whoever read the output has gone"))
        overseer = JobService(self._job, processes)
        with ExitStack() as stack:
            stack.callback(self._terminal.close)
            self._open_admin(overseer, stack)
            if self._terminal.shows_line:
                stack.enter_context(self._progress(overseer))
            self.overseer = overseer
            yield

    def _open_admin(self, overseer: JobService, stack: ExitStack) -> None:
        try:
            claimed = claim(self._directory, self._job)
        except RunDirectoryUnusable as error:
            print(f"this job cannot be steered while it runs: {error}", file=sys.stderr)
            return
        stack.callback(claimed.release)
        overseer.job = claimed.name
        admin = AdminServer(
            claimed.token,
            reads={
                "status": overseer.status,
                "explain": overseer.explain,
                "plan": overseer.plan,
                "scale": overseer.scaling,
                "portal": overseer.portal,
            },
            actions={
                "move": overseer.move,
                "map": overseer.map,
                "rebalance": overseer.rebalance,
                "cancel": overseer.cancel,
                "scale": overseer.scale,
                "leave": overseer.leave,
                "finish": overseer.finish,
            },
        )
        stack.callback(admin.close)
        claimed.publish(host=admin.host, port=admin.port, started_s=time.time())

    @contextmanager
    def _progress(self, overseer: JobService) -> Iterator[None]:
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(LINE_S):
                with suppress(BadRequest):  # a worker that cannot answer yet
                    self._terminal.show_line(progress_line(overseer.job, overseer.pulse(), columns()))

        thread = threading.Thread(target=renew, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
