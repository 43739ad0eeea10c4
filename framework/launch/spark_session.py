"""The Spark application of `--on spark`: its flags, how it is opened, and that it keeps quiet.

Under `spark-submit` it is the one that exists. The JVM's own chatter does not get to the console, unless a log level is
asked for; what it said is shown if it does not start.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from framework.errors import ConfigError, WorldError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBMITTED_VARIABLE = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit` for the program that it runs."""

LOG_LEVEL = "spark.log.level"
LOG_LINES_MAX = 20
LOOPBACK = "127.0.0.1"


class SparkUnusable(WorldError):
    """Spark did not start."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """What the flags say of the Spark application."""

    master: str | None = None
    conf: tuple[tuple[str, str], ...] = ()
    py_files: tuple[Path, ...] = ()


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
    return SparkOptions(flags.master, tuple((key, value) for key, value in conf), paths)


@contextmanager
def open_session(name: str, options: SparkOptions) -> Iterator[SparkSession]:
    """A session for the length of the block; it is stopped at the end, unless it was there before."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    submitted = SUBMITTED_VARIABLE in os.environ
    existed = SparkSession.getActiveSession() is not None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in _settings(options, submitted=submitted).items():
        builder = builder.config(key, value)
    with tempfile.TemporaryFile() as log, warnings.catch_warnings(action="ignore"):
        try:
            with _stderr_in(log if LOG_LEVEL not in dict(options.conf) else None):
                session = builder.getOrCreate()
        except (PySparkException, OSError) as error:
            log.seek(0)
            said = log.read().decode(errors="replace").splitlines()[-LOG_LINES_MAX:]
            raise SparkUnusable("\n  ".join([f"Spark did not start: {error}", *said])) from error
    try:
        for path in options.py_files:
            session.sparkContext.addPyFile(str(path.resolve()))
        yield session
    finally:
        if not existed:
            session.stop()


def _settings(options: SparkOptions, *, submitted: bool) -> dict[str, str]:
    """What the session is asked for; what the user says comes last."""
    settings = {"spark.ui.showConsoleProgress": "false", LOG_LEVEL: "ERROR"}
    master = options.master or dict(options.conf).get("spark.master") or (None if submitted else "local[*]")
    if master is not None:
        settings |= {"spark.master": master, "spark.ui.enabled": "false"}
        if master.startswith("local"):
            settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return settings | dict(options.conf)


@contextmanager
def _stderr_in(file: IO[bytes] | None) -> Iterator[None]:
    """Let a process that is started meanwhile have its standard error in a file."""
    if file is None:
        yield
        return
    kept = os.dup(2)
    with suppress(AttributeError, OSError):
        sys.stderr.flush()
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
