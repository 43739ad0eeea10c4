"""Runs a job from the command line: its flags, and where its processes run, here or in tasks of Spark."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from functools import partial

from framework.errors import ConfigError
from framework.launch.config import add_flags, config_from_flags, encryption_from_flags
from framework.launch.execute import execute_from_args, show_log
from framework.launch.spawned import SPAWNED_VARIABLE
from operators.control.broker_flags import add_broker_flags, limits_from_flags
from operators.control.cli_parser import Parser
from operators.control.input_files import check_input_file
from operators.control.job_control import JobControl
from operators.control.job_program import EPOCH_LINES, JobProgram
from operators.control.spark_flags import add_spark_flags, options_from_flags
from operators.job.job import Job

_log = logging.getLogger("hailer.run")


def run_from_args(job: Job, argv: Sequence[str] | None, control_plane: JobControl | None = None) -> None:
    """Run `job` as the command line says, and exit."""
    parser = _parser(job)
    flags = parser.parse_args(argv)
    try:
        program = JobProgram(
            job,
            _inputs(flags.input),
            _pairs("--output", flags.output),
            flags.epoch_lines,
            flags.serve,
            overwrite=flags.overwrite,
            allow_nan=flags.allow_nan,
            encryption=encryption_from_flags(flags),
            limits=limits_from_flags(flags),
        )
        if flags.serve and flags.input:
            raise ConfigError("--serve opens all inputs to others; leave --input out, or --serve")
        if flags.epoch_lines < 1:
            raise ConfigError(f"--epoch-lines {flags.epoch_lines}: an epoch has at least one line")
        spark = options_from_flags(flags)
        if SPAWNED_VARIABLE not in os.environ and flags.process is None:
            program.check_outputs()  # the worker that feeds the job does so again; here, before anything is started
        if spark is None:
            program.load()
            execute_from_args(partial(program.run, control_plane), argv, control_plane=control_plane)
        else:
            show_log()
            _log.info("starting Spark")
            if control_plane is not None:
                control_plane.logs_progress = True
            from operators.spark.launch.session import execute_on_spark

            execute_on_spark(program, config_from_flags(flags), spark, control_plane)
    except ConfigError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")


def _inputs(values: list[str]) -> dict[str, str]:
    inputs = _pairs("--input", values)
    for name, path in inputs.items():
        check_input_file(name, path)
    return inputs


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
        help='write an output as JSON lines, {"epoch": …, "record": …}, to files in a directory; - prints it, as do '
        "outputs not named",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="remove the results of an earlier run from the directories of outputs"
    )
    parser.add_argument(
        "--allow-nan", action="store_true", help="write NaN and Infinity, which JSON does not have, rather than fail"
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
    add_broker_flags(parser)
    add_flags(parser)
    add_spark_flags(parser)
    return parser
