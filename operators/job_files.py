"""A job from the command line: text files go in by lines, records come out as JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from select import PIPE_BUF
from typing import TYPE_CHECKING, Any, TextIO

from framework.errors import ConfigError, JobStopped
from framework.launch.config import add_flags
from framework.launch.execute import execute_from_args
from framework.worker.worker import Worker
from operators.drive import check_names, drive
from operators.flow import Receiver
from routing.control.arguments import Parser
from routing.control.plane import JobControl

if TYPE_CHECKING:
    from operators.job import Job


def run_from_args(job: Job, argv: Sequence[str] | None, plane: JobControl | None = None) -> None:
    """Run `job` as the command line says, and exit."""
    parser = _parser(job)
    flags = parser.parse_args(argv)
    try:
        inputs = _pairs("--input", flags.input)
        outputs = _pairs("--output", flags.output)
        for path in inputs.values():
            if not Path(path).exists() or Path(path).is_dir():
                raise ConfigError(f"--input: there is no file {path}")
        for path in outputs.values():
            if path != "-" and Path(path).exists() and not Path(path).is_dir():
                raise ConfigError(f"--output: {path} is a file; name a directory, which gets a file per worker")
        if flags.epoch_lines < 1:
            raise ConfigError(f"--epoch-lines {flags.epoch_lines}: an epoch has at least one line")
    except ConfigError as error:
        parser.error(str(error))

    def main(worker: Worker) -> None:
        with ExitStack() as files:
            flow = job.build(worker, lambda name: _receiver(name, outputs.get(name, "-"), worker, files))
            check_names("input", inputs, flow.inputs)
            check_names("output", outputs, flow.outputs)
            if plane is not None:
                plane.attach(flow)
            if flow.inputs and not inputs:
                names = " ".join(f"--input {name}=FILE" for name in flow.inputs)
                raise ConfigError(f"nothing feeds this job; give {names}")
            fed = inputs if flow.commanding else {}
            drive(flow, {name: lines(Path(path), lines_max=flags.epoch_lines) for name, path in fed.items()})
            if not worker.rescaling.gone:
                worker.complete()

    execute_from_args(main, argv, plane=plane)


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
        except BrokenPipeError:
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
        "--epoch-lines", type=int, default=1000, metavar="N", help="lines of each input and worker in an epoch (1000)"
    )
    add_flags(parser)
    return parser
