"""A job on the executors of a Spark session that is there already: a script's, or a notebook's.

counting = JobOnSpark(spark, job, workers=2)
counts = lines.transform(counting)
counting.scale(3)
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from framework.errors import ConfigError, HailerError, JobStopped
from framework.launch.config import Config
from framework.launch.signals import Stop
from framework.launch.supervisor import supervise
from framework.wire.credentials import Encryption
from operators.admin.errors import JobUnreachable
from operators.admin.json_codec import to_json
from operators.broker.budget import BrokerLimits
from operators.broker.endpoint import find_endpoint
from operators.control.job_control import JobControl
from operators.control.job_messages import Outcome
from operators.control.job_program import JobProgram
from operators.control.job_service import JobService
from operators.errors import JobLost, RequestRefused
from operators.job.job import Job
from operators.spark.launch.launcher import SparkLauncher
from operators.spark.launch.task import Program
from operators.spark.settings import RENAMING, SMALL_BATCHES, Slots, settings, wait_for_sources
from operators.spark.source import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.1
ENDING_S = 10.0
"""How long a job may take to end once it no longer answers."""


class JobOnSpark:
    """A job that runs in the background, in processes on Spark's executors.

    Called with a DataFrame it feeds the job with it and returns what comes out, as a DataFrame: a stream of a stream,
    and all that has come out of a batch. `feed` and `read` are the two halves of that. Meanwhile `hailer status` and
    the other commands find the job in the current directory.

    As a context manager it starts the job, and stops it when the block has ended. Instead of a `Job`, which is open to
    DataFrames, it takes another `Program`, such as a `JobProgram` on files; it is then waited for
    at the end of the block, unless that fails.
    """

    def __init__(
        self,
        spark: SparkSession,
        job: Job | Program,
        *,
        workers: int = 2,
        threads: int = 1,
        limits: BrokerLimits | None = None,
        tls: bool = True,
    ) -> None:
        """`workers`: how many processes it begins with; `threads`: how many workers each of them has; `limits`: what
        of a job's inputs and outputs may be kept on the disk of its first worker; `tls`: whether connections between
        machines are encrypted."""
        kept, encryption = limits or BrokerLimits(), Encryption.BETWEEN_MACHINES if tls else Encryption.NEVER
        program: Program = (
            JobProgram(job, serve=True, limits=kept, encryption=encryption) if isinstance(job, Job) else job
        )
        self._spark = spark
        self._serves = isinstance(job, Job)
        self._queries: list[StreamingQuery] = []
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        """For the checkpoints of queries that feed the job: they mean nothing to another run of it."""
        self._slots = Slots(spark)
        self._stop = Stop()
        self._directory = Path.cwd()
        self._plane = JobControl(program.name, self._directory)
        self._config = Config(threads, (("", 0),) * workers, process=None, encryption=encryption)
        self._program = program
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"job {program.name}", daemon=True)

    def start(self) -> None:
        """Start it, and return once its processes run; raises what keeps them from that."""
        self._thread.start()
        while self._plane.service is None and self._thread.is_alive():
            self._thread.join(POLL_S)
        if self._plane.service is None:
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
        """Have it end, with the queries that feed it, and wait for that. Nothing is raised, however it ends."""
        for query in self._queries:
            query.stop()
        self._stop.request("the program that started it stopped it")
        if self._thread.ident is not None:
            self._thread.join()
        self._slots.free()
        if self._scratch is not None:
            self._scratch.cleanup()

    def finish(self) -> None:
        """Stop the queries that feed it, end its inputs, and wait until all has come out, also what waited for later.

        What has come out is still to be read: let queries that read it `processAllAvailable`, say. Raises what a query
        that feeds it has failed with, or the job.
        """
        for query in self._queries:
            query.stop()
            if (error := query.exception()) is not None:
                raise error
        service = self._service()
        endpoint = find_endpoint(self._directory, service.job)
        service.finish()
        try:
            for output in endpoint.outputs:
                endpoint.client.latest(output, settle=True)
        except (JobLost, RequestRefused):
            if not self.wait(ENDING_S):  # a job of which nothing is left to be read has ended
                raise

    def status(self) -> dict[str, Any]:
        """What `hailer status --json` prints: its workers, operators, bins, and what is under way."""
        return cast(dict[str, Any], to_json(self._service().status()))

    def scale(self, workers: int) -> Outcome:
        """Scale it to `workers` processes; wait until joiners have their bins, and the bins of leavers have moved."""
        outcome = self._service().scale_to(workers)
        if self._queries:
            self._slots.hold(len(self.processes))
        return outcome

    def move(self, bins: Sequence[int], *, to: int) -> Outcome:
        """Give some bins to a worker, and wait until it has them."""
        return self._service().move_to(bins, to)

    # Data

    def __call__(
        self, df: DataFrame, *, input: str | None = None, output: str | None = None, **trigger: Any
    ) -> DataFrame:
        """What the job makes of a DataFrame, for `df.transform(job)`; of a job with several outputs, say which one.

        Its other outputs are read with `read`: `df.transform(job, output="totals")` beside `job.read("rejected")`.
        `trigger` is what `feed` takes besides.
        """
        result = self.read(output, stream=df.isStreaming)  # first, so that a wrong name is found before data move
        self.feed(df, input, **trigger)
        return result

    def feed(
        self,
        df: DataFrame,
        input: str | None = None,
        *,
        checkpoint: str | None = None,
        batch: str | None = None,
        **trigger: Any,
    ) -> StreamingQuery | None:
        """Write a DataFrame to an input, the only one unless named: the query that does so, if it is a stream.

        `trigger` is that of `DataStreamWriter.trigger`. `checkpoint` is where the query keeps its own state, if it has
        any and executors do not share this machine's disk. `batch` is the name of a DataFrame that is no stream: under
        one name it counts once, however often it is fed, for a caller that does not know whether it was.
        """
        options = self._options(input=input, batch=batch)
        self._slots.hold(len(self.processes))
        if not df.isStreaming:
            with settings(df.sparkSession, SMALL_BATCHES):
                df.write.format("hailer").mode("append").options(**options).save()
            return None
        writer = df.writeStream.format("hailer").options(**options)
        where = checkpoint or self._new_checkpoint()
        writer = (writer.trigger(**trigger) if trigger else writer).option("checkpointLocation", where)
        with settings(df.sparkSession, SMALL_BATCHES if checkpoint else SMALL_BATCHES | RENAMING):
            query = writer.start()
            wait_for_sources(query)
        self._queries.append(query)
        return query

    def _new_checkpoint(self) -> str:
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="hailer-")
        return str(Path(self._scratch.name) / f"checkpoint-{len(self._queries)}")

    def read(self, output: str | None = None, *, stream: bool = True) -> DataFrame:
        """An output, the only one unless named: as a stream, or all that was fed so far has led to and is unread."""
        reader = self._spark.readStream if stream else self._spark.read
        return reader.format("hailer").options(**self._options(output=output)).load()

    def _options(self, **given: str | None) -> dict[str, str]:
        if not self._serves:
            raise ConfigError("this program is not open to DataFrames; give JobOnSpark the job itself")
        if self._thread.ident is None:
            self.start()
        register(self._spark)
        named = {option: name for option, name in given.items() if name is not None}
        return {"directory": str(self._directory), "job": self._service().job, **named}

    @property
    def processes(self) -> list[int]:
        """The numbers of its processes as of now, joiners included."""
        return self._service().processes

    def __enter__(self) -> JobOnSpark:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None and not self._serves:
            self.wait()
            return
        if error is not None and self._is_silent():
            self._thread.join(ENDING_S)  # by itself, if it has failed: a job that is stopped does not tell why
        self.stop()
        if error is not None and self._error is not None and error is not self._error:
            error.add_note(str(self._error))  # what Spark reports is that the job was lost

    def _is_silent(self) -> bool:
        """Whether a worker does not answer, although the job has begun."""
        if self._plane.service is None:
            return False
        try:
            return bool(self._plane.service.progress().silent)
        except HailerError:
            return True

    def _service(self) -> JobService:
        if self._plane.service is None:
            raise JobUnreachable("this job does not run yet; start it first")
        if self.wait(0):
            raise JobUnreachable("this job has ended")
        return self._plane.service

    def _run(self) -> None:
        try:
            context, config = self._spark.sparkContext, self._config
            launcher = SparkLauncher(context, self._program, threads=config.threads, encryption=config.encryption)
            supervise(launcher, config, self._stop, self._plane)
        except JobStopped:
            pass  # as asked
        except Exception as error:
            self._error = error
