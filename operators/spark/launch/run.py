"""Run a program in tasks of Spark from the command line: a Spark application for the length of the run, one report."""

from __future__ import annotations

import sys

from framework.launch.config import Config
from framework.launch.control_protocol import ControlPlane
from framework.launch.execute import supervise_from_args
from operators.spark.launch.launcher import SparkLauncher
from operators.spark.launch.session import SparkOptions, SparkUnusable, open_session
from operators.spark.launch.task import Program


def execute_on_spark(program: Program, config: Config, options: SparkOptions, plane: ControlPlane | None) -> None:
    """Run `program` on the executors of a Spark application; exit as `execute_from_args` does if that fails."""
    try:
        with open_session(program.name, options) as session:
            launcher = SparkLauncher(session.sparkContext, program, threads=config.threads)
            supervise_from_args(launcher, config, plane)
    except SparkUnusable as error:
        print(f"job failed: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:  # while Spark started or stopped
        raise SystemExit(130) from None
