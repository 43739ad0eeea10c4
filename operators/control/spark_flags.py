"""The flags by which a program's processes run on Spark, which is loaded only if they do."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from framework.errors import ConfigError

if TYPE_CHECKING:
    from operators.spark.launch.session import SparkOptions


def add_spark_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of programs whose processes can run on Spark."""
    group = parser.add_argument_group("spark")
    group.add_argument(
        "--on", choices=["local", "spark"], default="local", help="where the processes run: here, or on Spark executors"
    )
    group.add_argument("--master", metavar="URL", help="with --on spark: as for spark-submit (local[*])")
    group.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="with --on spark: as for spark-submit"
    )
    group.add_argument(
        "--py-files", metavar="FILES", help="with --on spark: modules of yours for the executors, by commas"
    )


def options_from_flags(flags: argparse.Namespace) -> SparkOptions | None:
    """What the flags say, if processes are to run on Spark."""
    if flags.on != "spark":
        for flag in ("master", "conf", "py_files"):
            if getattr(flags, flag):
                raise ConfigError(f"--{flag.replace('_', '-')} goes with --on spark")
        return None
    for flag in ("process", "hostfile", "base_port", "join", "nn", "secret_file"):
        if getattr(flags, flag) is not None:
            raise ConfigError(
                f"--{flag.replace('_', '-')} does not go with --on spark: Spark says where processes run, they bind "
                f"free ports, and each run has a secret of its own"
            )
    conf = [tuple(setting.partition("=")[::2]) for setting in flags.conf]
    for setting, (key, value) in zip(flags.conf, conf, strict=True):
        if not key or not value:
            raise ConfigError(f"--conf {setting!r}: write KEY=VALUE, such as --conf spark.executor.memory=2g")
    paths = tuple(Path(name) for name in flags.py_files.split(",")) if flags.py_files else ()
    for path in paths:
        if not path.exists():
            raise ConfigError(f"--py-files: there is no file {path}")
    from operators.spark.launch.session import SparkOptions

    return SparkOptions(flags.master, tuple((key, value) for key, value in conf), paths)
