"""A job with its ends, as the workers of a process run it: on files, or open to others."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import permutations
from pathlib import Path

from framework.errors import ConfigError
from framework.wire.container import Container
from framework.wire.credentials import Encryption
from framework.worker.worker import Worker
from operators.broker.budget import BrokerLimits
from operators.control.job_control import JobControl
from operators.job.files import lines, printer
from operators.job.flow import Flow, OutputReceiver
from operators.job.job import Job
from operators.job.json_lines import JsonLines
from operators.job.output_directory import OutputDirectory, check_free
from operators.job.part_writer import FileOutput
from operators.job.run_loop import check_names, feed_from, run_on_worker
from operators.job.served import ServedJob
from operators.job.warm_start import load_noted, note_loaded
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
    overwrite: bool = False
    """Whether an output's directory may have the results of an earlier run, which are removed."""
    allow_nan: bool = False
    """Whether outputs may have `NaN` and `Infinity`, which JSON does not."""
    encryption: Encryption = Encryption.BETWEEN_MACHINES
    """Which connections to those who feed and read it are encrypted."""
    limits: BrokerLimits = field(default_factory=BrokerLimits)
    """What may be kept on disk of what is served."""

    def __post_init__(self) -> None:
        """Name the files in a way that holds in every directory."""
        self.inputs = {name: os.path.abspath(path) for name, path in self.inputs.items()}
        self.outputs = {name: path if path == "-" else os.path.abspath(path) for name, path in self.outputs.items()}
        for (one, path), (other, below) in permutations(self.directories.items(), 2):
            if Path(os.path.realpath(below)).is_relative_to(os.path.realpath(path)):
                raise ConfigError(
                    f"outputs {one!r} and {other!r} both go to {path}; give each a directory that is in no other's"
                )

    @property
    def name(self) -> str:
        """What the job is called."""
        return self.job.name

    @property
    def directories(self) -> Mapping[str, str]:
        """The outputs that go to files, and where."""
        return {name: path for name, path in self.outputs.items() if path != "-"}

    def check_outputs(self) -> None:
        """Raise `ConfigError` if the directory of an output is not free, as far as can be seen from here."""
        for name, path in self.directories.items():
            check_free(name, Path(path), overwrite=self.overwrite)

    def load(self) -> None:
        """Load what the job will need, before it begins: what a joiner loads later would hold up a running job."""
        if self.serve:
            load_arrow()
        if not load_noted(self.job) and "operators.columns" in sys.modules:
            import_module("operators.columns.module_cache").load_kernels()

    def prepare(self) -> tuple[Callable[[Worker], None], JobControl]:
        """What the workers of a process run, and the control plane that they answer."""
        self.load()
        control_plane = JobControl(self.name, Path.cwd())
        return partial(self.run, control_plane), control_plane

    def run(self, control_plane: JobControl | None, worker: Worker) -> None:
        """Run the job on one worker, to its end."""
        with ExitStack() as ends:
            serving = (
                ServedJob(worker, but=self.outputs, limits=self.limits, encryption=self.encryption)
                if self.serve
                else None
            )
            files: list[FileOutput] = []
            flow = self.job.build(worker, lambda name: self._receiver(name, worker, ends, files), serving=serving)
            check_names("input", self.inputs, flow.inputs)
            check_names("output", self.outputs, flow.outputs)
            if not self.serve:
                self._check_fed(flow)
            for output in files if flow.commanding else ():
                output.directory.claim()
            note_loaded(self.job)
            if control_plane is not None:
                control_plane.attach(flow)
            if serving is not None:
                ends.callback(serving.close)
                run_on_worker(flow, serving.serve)
            else:
                run_on_worker(flow, self._feed)
            if not worker.membership.gone:
                worker.complete()
                for output in files if flow.commanding else ():
                    output.end()
                if serving is not None:
                    serving.drain()

    def _check_fed(self, flow: Flow) -> None:
        """Raise unless every input is fed."""
        missing = [name for name in flow.inputs if name not in self.inputs]
        if missing and not self.inputs:
            flags = " ".join(f"--input {name}=FILE" for name in missing)
            raise ConfigError(f"nothing feeds this job; give {flags}, or --serve, for Spark to feed it")
        if missing:
            flag = f"--input {missing[0]}"
            raise ConfigError(
                f"nothing feeds input {missing[0]!r}; give {flag}=FILE, or {flag}=/dev/null for an empty one"
            )

    def _receiver(
        self, name: str, worker: Worker, ends: ExitStack, files: list[FileOutput]
    ) -> OutputReceiver | FileOutput:
        """What takes an output's records; `files` has those that go to files, which `ends` closes."""
        lines = JsonLines(name, allow_nan=self.allow_nan)
        path = self.directories.get(name)
        if path is None:
            return printer(name, lines, sys.stdout.buffer)
        directory = OutputDirectory(name, Path(path), self.name, self.overwrite)
        ends.callback(directory.release)
        files.append(FileOutput(directory, lines))
        return files[-1]

    def _feed(self, flow: Flow) -> None:
        fed = self.inputs if flow.commanding else {}
        feed_from({name: self._source(flow, name, Path(path)) for name, path in fed.items()}, flow)

    def _source(self, flow: Flow, name: str, path: Path) -> Iterator[Container]:
        schema = flow.column_inputs.get(name)
        if schema is None:
            return lines(path, lines_max=self.epoch_lines)
        from operators.columns.text import line_batches

        return line_batches(path, schema, lines_max=self.epoch_lines, where=f"input {name!r}")
