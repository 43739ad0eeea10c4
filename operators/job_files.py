"""A job from the command line: text files go in by lines, records come out as JSON; or it is open to Spark."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from select import PIPE_BUF
from typing import TYPE_CHECKING, Any, TextIO

from framework.errors import ConfigError, JobStopped
from framework.launch.config import add_flags, config_from_flags
from framework.launch.execute import execute_from_args
from framework.launch.spark_run import execute_on_spark
from framework.launch.spark_session import add_spark_flags, options_from_flags
from framework.wire.container import Container
from framework.worker.worker import Worker
from operators.drive import check_names, drive, feed_from
from operators.flow import Flow, Receiver
from operators.schema import load_arrow
from operators.serving import Serving
from routing.control.arguments import Parser
from routing.control.plane import JobControl

if TYPE_CHECKING:
    from operators.job import Job

EPOCH_LINES = 1000
"""How many lines of each input make an epoch, unless said otherwise."""


@dataclass(slots=True)
class JobProgram:
    """A job and its ends: inputs are the lines of text files, outputs go to directories or are printed; or it serves.

    It can run in processes elsewhere (`framework.launch.spark_task.Program`), if they reach the same files.
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
            import_module("operators.columns.loading").load_kernels()

    def prepare(self) -> tuple[Callable[[Worker], None], JobControl]:
        """What the workers of a process run, and the control plane that they answer."""
        self.load()
        plane = JobControl(self.name, Path.cwd())
        return partial(self.run, plane), plane

    def run(self, plane: JobControl | None, worker: Worker) -> None:
        """Run the job on one worker, to its end."""
        with ExitStack() as ends:
            serving = Serving(worker, but=self.outputs) if self.serve else None
            flow = self.job.build(
                worker, lambda name: _receiver(name, self.outputs.get(name, "-"), worker, ends), serving=serving
            )
            check_names("input", self.inputs, flow.inputs)
            check_names("output", self.outputs, flow.outputs)
            if plane is not None:
                plane.attach(flow)
            if serving is not None:
                ends.callback(serving.close)
                drive(flow, serving.serve)
            else:
                drive(flow, self._feed)
            if not worker.rescaling.gone:
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


def run_from_args(job: Job, argv: Sequence[str] | None, plane: JobControl | None = None) -> None:
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
            execute_from_args(partial(program.run, plane), argv, plane=plane)
        else:
            execute_on_spark(program, config_from_flags(flags), spark, plane)
    except ConfigError as error:
        parser.error(str(error))


def lines(path: Path, *, lines_max: int) -> Iterator[list[str]]:
    """The lines of a file, some at a time, without their ends."""
    with path.open("rb") as file:
        rows: list[str] = []
        for line in file:
            rows.append(line.decode("utf-8", errors="surrogateescape").rstrip("\r\n"))
            if len(rows) == lines_max:
                yield rows
                rows = []
        if rows:
            yield rows


def _receiver(name: str, destination: str, worker: Worker, files: ExitStack) -> Receiver:
    """Writes an output's records to standard output, or to this worker's file in a directory."""
    if destination == "-":
        return _printer(name, sys.stdout)
    directory = Path(destination)
    directory.mkdir(parents=True, exist_ok=True)
    file = files.enter_context((directory / f"worker-{worker.index}.jsonl").open("w", encoding="utf-8"))
    return _writer(file)


def _printer(name: str, out: TextIO) -> Receiver:
    def receive(epoch: int, rows: Sequence[Any]) -> None:
        try:
            for text in _writes(f"{name}\t{epoch}\t{_json(row)}\n" for row in rows):
                out.write(text)
                out.flush()
        except ConnectionError:
            raise JobStopped("whoever read the output has gone") from None

    return receive


def _writes(lines: Iterable[str]) -> Iterator[str]:
    """Lines put together as far as one write to a pipe stays whole: other processes write to it, too."""
    gathered: list[str] = []
    size = 0
    for line in lines:
        length = len(line.encode("utf-8", errors="replace"))
        if gathered and size + length > PIPE_BUF:
            yield "".join(gathered)
            gathered, size = [], 0
        gathered.append(line)
        size += length
    if gathered:
        yield "".join(gathered)


def _writer(file: TextIO) -> Receiver:
    def receive(epoch: int, rows: Sequence[Any]) -> None:
        file.write("".join(f"[{epoch}, {_json(row)}]\n" for row in rows))

    return receive


def _json(record: Any) -> str:
    return json.dumps(record, default=repr, ensure_ascii=False)


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
