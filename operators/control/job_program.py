"""A job with its ends, as the workers of a process run it: on files, or open to others."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path

from framework.errors import ConfigError
from framework.wire.container import Container
from framework.worker.worker import Worker
from operators.control.job_control import JobControl
from operators.job.files import lines, receiver
from operators.job.flow import Flow
from operators.job.job import Job
from operators.job.run_loop import check_names, feed_from, run_on_worker
from operators.job.served import ServedJob
from operators.schema import load_arrow

EPOCH_LINES = 1000
"""How many lines of each input make an epoch, unless said otherwise."""


@dataclass(slots=True)
class JobProgram:
    """A job and its ends: inputs are the lines of text files, outputs go to directories or are printed; or it serves.

    It can run in processes elsewhere (`operators.spark.launch.task.Program`), if they reach the same files.
    """

    job: Job
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    epoch_lines: int = EPOCH_LINES
    serve: bool = False
    """Whether all inputs, and the outputs that are not named, are open to others."""

    def __post_init__(self) -> None:
        """Name the files in a way that holds in every directory."""
        self.inputs = {name: os.path.abspath(path) for name, path in self.inputs.items()}
        self.outputs = {name: path if path == "-" else os.path.abspath(path) for name, path in self.outputs.items()}

    @property
    def name(self) -> str:
        """What the job is called."""
        return self.job.name

    def load(self) -> None:
        """Load what the job will need, before it begins: what a joiner loads later would hold up a running job."""
        if self.serve:
            load_arrow()
        if "operators.columns" in sys.modules:
            import_module("operators.columns.module_cache").load_kernels()

    def prepare(self) -> tuple[Callable[[Worker], None], JobControl]:
        """What the workers of a process run, and the control plane that they answer."""
        self.load()
        control_plane = JobControl(self.name, Path.cwd())
        return partial(self.run, control_plane), control_plane

    def run(self, control_plane: JobControl | None, worker: Worker) -> None:
        """Run the job on one worker, to its end."""
        with ExitStack() as ends:
            serving = ServedJob(worker, but=self.outputs) if self.serve else None
            flow = self.job.build(
                worker, lambda name: receiver(name, self.outputs.get(name, "-"), worker, ends), serving=serving
            )
            check_names("input", self.inputs, flow.inputs)
            check_names("output", self.outputs, flow.outputs)
            if control_plane is not None:
                control_plane.attach(flow)
            if serving is not None:
                ends.callback(serving.close)
                run_on_worker(flow, serving.serve)
            else:
                run_on_worker(flow, self._feed)
            if not worker.membership.gone:
                worker.complete()
                if serving is not None:
                    serving.drain()

    def _feed(self, flow: Flow) -> None:
        if flow.inputs and not self.inputs:
            names = " ".join(f"--input {name}=FILE" for name in flow.inputs)
            raise ConfigError(f"nothing feeds this job; give {names}, or --serve, for Spark to feed it")
        fed = self.inputs if flow.commanding else {}
        feed_from({name: self._source(flow, name, Path(path)) for name, path in fed.items()}, flow)

    def _source(self, flow: Flow, name: str, path: Path) -> Iterator[Container]:
        schema = flow.column_inputs.get(name)
        if schema is None:
            return lines(path, lines_max=self.epoch_lines)
        from operators.columns.text import line_batches

        return line_batches(path, schema, lines_max=self.epoch_lines, where=f"input {name!r}")
