"""The Spark application of `--on spark`: opened for the length of a run, and quiet.

Under `spark-submit` it is the one that exists. The JVM's log does not get to the console, unless a log level is asked
for; its last lines are shown if it does not start.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from framework.launch.config import Config
from framework.launch.control_protocol import ControlPlane
from framework.launch.execute import supervise_from_args
from operators.control.doctor import java
from operators.errors import SparkUnusable
from operators.spark.launch.launcher import SparkLauncher
from operators.spark.launch.task import Program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("hailer.spark")

SUBMITTED_VARIABLE = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit` for the program that it runs."""

LOG_LEVEL = "spark.log.level"
LOG_LINES_MAX = 20
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """What a Spark application is opened with, as for `spark-submit`."""

    master: str | None = None
    conf: tuple[tuple[str, str], ...] = ()
    py_files: tuple[Path, ...] = ()


def execute_on_spark(
    program: Program, config: Config, options: SparkOptions, control_plane: ControlPlane | None
) -> None:
    """Run `program` on the executors of a Spark application; exit as `execute_from_args` does if that fails."""
    try:
        began_s = time.monotonic()
        with open_session(program.name, options) as session:
            context = session.sparkContext
            _log.info("Spark %s runs at %s after %.1f s", context.version, context.master, time.monotonic() - began_s)
            launcher = SparkLauncher(context, program, threads=config.threads, encryption=config.encryption)
            supervise_from_args(launcher, config, control_plane)
    except SparkUnusable as error:
        print(f"job failed: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:  # while Spark started or stopped
        raise SystemExit(130) from None


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
            found = java()
            if found.mark != "ok":
                raise SparkUnusable(f"Spark did not start: {found.what}; {found.remedy}") from error
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
    """The configuration of the session; what the user sets wins."""
    settings = {"spark.ui.showConsoleProgress": "false", LOG_LEVEL: "ERROR"}
    master = options.master or dict(options.conf).get("spark.master") or (None if submitted else "local[*]")
    if master is not None:
        settings |= {"spark.master": master, "spark.ui.enabled": "false"}
        if master.startswith("local"):
            settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return settings | dict(options.conf)


@contextmanager
def _stderr_in(file: IO[bytes] | None) -> Iterator[None]:
    """Redirect the standard error of processes that are started in the block to a file; ours stays where it is."""
    if file is None:
        yield
        return
    kept = os.dup(2)
    with suppress(AttributeError, OSError):
        sys.stderr.flush()
    try:
        with _printing_to(kept):
            os.dup2(file.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _printing_to(descriptor: int) -> Iterator[None]:
    """Let this process's threads print there meanwhile, unless its standard error is somewhere of its own anyway."""
    ours = -1
    with suppress(AttributeError, OSError):
        ours = sys.stderr.fileno()
    if ours != 2:
        yield
        return
    with os.fdopen(os.dup(descriptor), "w", buffering=1) as stderr, redirect_stderr(stderr):
        yield
