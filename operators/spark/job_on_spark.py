"""A job on the executors of a Spark session that is there already: a script's, or a notebook's."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from framework.errors import JobStopped
from framework.launch.config import Config
from framework.launch.family import supervise
from framework.launch.signals import Stop
from framework.launch.spark import SparkLauncher
from framework.launch.spark_task import Program
from routing.control.errors import JobUnreachable
from routing.control.overseer import Overseer
from routing.control.plane import JobControl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.1


class JobOnSpark:
    """A job that runs in the background, in processes on Spark's executors.

    As a context manager it starts the job, and waits for its end when the block has ended; a block that fails stops it.
    Meanwhile `hailer status` and the other commands find it in the current directory. What runs is a `Program`, such as
    `operators.job_files.JobOnFiles`.
    """

    def __init__(self, spark: SparkSession, program: Program, *, workers: int = 2, threads: int = 1) -> None:
        """`workers`: how many processes it begins with, each with so many worker `threads`."""
        self._stop = Stop()
        self._plane = JobControl(program.name, Path.cwd())
        self._config = Config(threads, (("", 0),) * workers, process=None)
        self._spark = spark
        self._program = program
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"job {program.name}", daemon=True)

    def start(self) -> None:
        """Start it, and return once its processes run; raises what keeps them from that."""
        self._thread.start()
        while self._plane.overseer is None and self._thread.is_alive():
            self._thread.join(POLL_S)
        if self._plane.overseer is None:
            self.wait()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end, but no longer than this; whether it has ended. Raises what the job failed with."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self) -> None:
        """Have it end, and wait for that. Nothing is raised, however it ends."""
        self._stop.request("the program that started it stopped it")
        self._thread.join()

    def scale(self, workers: int) -> None:
        """Make it have so many processes, and wait until they have their bins, or theirs have gone to the others."""
        self._overseer().scale_to(workers)

    @property
    def processes(self) -> list[int]:
        """The numbers of its processes as of now, joiners included."""
        return self._overseer().processes

    def __enter__(self) -> JobOnSpark:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.wait()
        else:
            self.stop()

    def _overseer(self) -> Overseer:
        if self._plane.overseer is None:
            raise JobUnreachable("this job does not run yet; start it first")
        if not self._thread.is_alive():
            raise JobUnreachable("this job has ended")
        return self._plane.overseer

    def _run(self) -> None:
        try:
            launcher = SparkLauncher(self._spark.sparkContext, self._program, threads=self._config.threads)
            supervise(launcher, self._config, self._stop, self._plane)
        except JobStopped:
            pass  # as asked
        except Exception as error:
            self._error = error
