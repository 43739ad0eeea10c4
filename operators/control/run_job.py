"""A job from the command line: on files, or open to Spark; here, or in tasks of Spark."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path

from framework.errors import ConfigError
from framework.launch.config import add_flags, config_from_flags
from framework.launch.execute import execute_from_args
from framework.wire.container import Container
from framework.worker.worker import Worker
from operators.control.cli_parser import Parser
from operators.control.job_control import JobControl
from operators.control.spark_flags import add_spark_flags, options_from_flags
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
        """Load what the job will need, before it begins: whoever joins a running job holds it up from then on."""
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
                    serving.see_off()

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


def run_from_args(job: Job, argv: Sequence[str] | None, control_plane: JobControl | None = None) -> None:
    """Run `job` as the command line says, and exit."""
    parser = _parser(job)
    flags = parser.parse_args(argv)
    try:
        program = JobProgram(job, _inputs(flags.input), _outputs(flags.output), flags.epoch_lines, flags.serve)
        if flags.serve and flags.input:
            raise ConfigError("--serve opens all inputs to others; leave --input out, or --serve")
        if flags.epoch_lines < 1:
            raise ConfigError(f"--epoch-lines {flags.epoch_lines}: an epoch has at least one line")
        spark = options_from_flags(flags)
        if spark is None:
            program.load()
            execute_from_args(partial(program.run, control_plane), argv, control_plane=control_plane)
        else:
            from operators.spark.launch.session import execute_on_spark

            execute_on_spark(program, config_from_flags(flags), spark, control_plane)
    except ConfigError as error:
        parser.error(str(error))


def _inputs(values: list[str]) -> dict[str, str]:
    inputs = _pairs("--input", values)
    for path in inputs.values():
        if not Path(path).exists() or Path(path).is_dir():
            raise ConfigError(f"--input: there is no file {path}")
    return inputs


def _outputs(values: list[str]) -> dict[str, str]:
    outputs = _pairs("--output", values)
    for path in outputs.values():
        if path != "-" and Path(path).exists() and not Path(path).is_dir():
            raise ConfigError(f"--output: {path} is a file; name a directory, which gets a file per worker")
    return outputs


def _pairs(flag: str, values: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for value in values:
        name, separator, path = value.partition("=")
        if not separator or not name or not path:
            raise ConfigError(f"{flag} {value!r}: write NAME=PATH, such as {flag} lines=book.txt")
        if name in pairs:
            raise ConfigError(f"{flag} {name} is given twice")
        pairs[name] = path
    return pairs


def _parser(job: Job) -> argparse.ArgumentParser:
    parser = Parser(
        description=f"Run the job {job.name!r} on files.",
        epilog=f"example: %(prog)s -n 2 --input lines=book.txt --output counts={os.path.join('out', 'counts')}",
    )
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE", help="feed an input with the lines of a text file"
    )
    parser.add_argument(
        "--output",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="write an output as JSON lines [epoch, record], a file per worker; - prints it, as do outputs not named",
    )
    parser.add_argument(
        "--serve",
        action="store_true",
        help="let Spark feed the inputs, and read the outputs that --output does not name, while the job runs",
    )
    parser.add_argument(
        "--epoch-lines",
        type=int,
        default=EPOCH_LINES,
        metavar="N",
        help=f"lines of each input and worker in an epoch ({EPOCH_LINES})",
    )
    add_flags(parser)
    add_spark_flags(parser)
    return parser
