"""Runs a job from the command line: its flags, and where its processes run, here or in tasks of Spark."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from framework.errors import ConfigError
from framework.launch.config import add_flags, config_from_flags
from framework.launch.execute import execute_from_args
from operators.control.cli_parser import Parser
from operators.control.job_control import JobControl
from operators.control.job_program import EPOCH_LINES, JobProgram
from operators.control.spark_flags import add_spark_flags, options_from_flags
from operators.job.job import Job


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
