"""Jobs whose workers run on the executors of a Spark session: they end, fail, grow and shrink as elsewhere."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.errors import ProcessesFailed
from framework.wire.credentials import Encryption
from operators import Flow, Job
from operators.broker.endpoint import find_endpoint
from operators.control.errors import ChangeFailed
from operators.control.job_program import JobProgram
from operators.job.job_file import load_job
from operators.spark import JobOnSpark
from operators.spark.launch.session import SparkOptions, open_session
from operators.spark.settings import PARALLELISM, RENAMING, SMALL_BATCHES, Slots
from tests.process.jobs import wait_until, written
from tests.process.test_scale import is_alive
from tests.spark.counting import check_counts, counting, pids

pytestmark = [pytest.mark.timeout(240), pytest.mark.filterwarnings("default")]

FAILING = """
from operators import Job

job = Job("failing")

@job.dataflow
def failing(flow):
    flow.output("eighths", flow.input("lines").map(lambda line: 8 // (len(line) - 5), name="eighths"))
"""

POINTS = """
from dataclasses import dataclass
from operators import Job
from framework.wire.codec import register

@dataclass
class Point:
    x: int

register(Point)
job = Job("points")

@job.dataflow
def points(flow):
    placed = flow.input("lines").map(lambda line: Point(len(line))).exchange(lambda point: point.x)
    flow.output("points", placed.map(lambda point: (type(point).__name__, point.x)))
"""

AFAR = """
import only_here
from operators import Job

job = Job("afar")

@job.dataflow
def afar(flow):
    flow.output("lines", flow.input("lines").map(lambda line: only_here.change(line)))
"""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with open_session("tests", SparkOptions(master="local[4]")) as session:
        yield session


def on_files(folder: Path, name: str, source: str, text: str = "to be\nor not\n") -> JobProgram:
    """A job that a user has written."""
    (folder / f"{name}.py").write_text(source)
    (folder / "lines.txt").write_text(text)
    return JobProgram(load_job(folder / f"{name}.py"), {"lines": "lines.txt"})


def test_workers_join_and_leave_while_lines_flow_and_no_count_is_wrong(spark: SparkSession, folder: Path):
    with JobOnSpark(spark, counting(folder), workers=2) as running:
        running.scale(3)
        assert running.processes == [0, 1, 2]
        with pytest.raises(ChangeFailed, match=r"no room for 1 process: of its 4 slots 3 are in use, .* local\[5\]"):
            running.scale(4)
        assert spark.sparkContext.parallelize(range(9), 3).sum() == 36  # one slot is left for Spark's own
        running.scale(2)
        assert running.processes == [0, 1]
        running.scale(3)
        assert running.processes == [0, 1, 3]
        assert not running.wait(0)
        (folder / "hurry").touch()
    check_counts(folder)
    found = spark.read.json(str(folder / "out"))  # the marker and what lies beside the parts are passed over
    assert sorted((row.epoch, row.record[0], int(row.record[1])) for row in found.collect()) == sorted(
        (epoch, word, total) for epoch, (word, total) in written(folder / "out")
    )


def test_streams_links_readers_and_writers_work_as_well_encrypted(spark: SparkSession, folder: Path):
    """As if every process were on a machine of its own."""
    job = Job("shouting")

    @job.dataflow
    def shouting(flow: Flow) -> None:
        shouted = flow.input("lines").exchange(len).map(str.upper)
        flow.output("shouted", shouted, {"line": str})

    running = JobOnSpark(spark, job, workers=2, tls=False)
    assert isinstance(running._program, JobProgram)
    assert (running._program.encryption, running._config.encryption) == (Encryption.NEVER, Encryption.NEVER)
    running._program.encryption = Encryption.ALWAYS
    running._config = replace(running._config, encryption=Encryption.ALWAYS)
    with running:
        lines = spark.createDataFrame([("x" * length,) for length in range(1, 50)], "line string")
        assert sorted(len(row.line) for row in lines.transform(running).collect()) == list(range(1, 50))
        assert find_endpoint(folder).client.credentials.encryption is Encryption.ALWAYS
        running.scale(3)
        running.finish()


def test_a_session_has_its_own_settings_back_when_a_job_that_was_fed_has_stopped(spark: SparkSession, folder: Path):
    job = Job("passing")

    @job.dataflow
    def passing(flow: Flow) -> None:
        flow.output("lines", flow.input("lines"), {"line": str})

    [manager], [batch_bytes] = RENAMING, SMALL_BATCHES
    spark.conf.set(batch_bytes, "5000")  # what the user says is not changed
    (folder / "incoming").mkdir()
    (folder / "incoming" / "lines.txt").write_text("tea\nmilk\n")
    with JobOnSpark(spark, job, workers=2) as running:
        feeding = running.feed(spark.readStream.text(str(folder / "incoming")), availableNow=True)
        assert feeding is not None
        feeding.awaitTermination()
        assert [spark.conf.get(key, None) for key in (PARALLELISM, manager, batch_bytes)] == ["2", None, "5000"]
        running.scale(3)
        assert spark.conf.get(PARALLELISM, None) == "1"
        assert sorted(running.read(stream=False).collect()) == [("milk",), ("tea",)]
    assert [spark.conf.get(key, None) for key in (PARALLELISM, manager, batch_bytes)] == [None, None, "5000"]
    spark.conf.unset(batch_bytes)


def test_what_a_user_says_of_slots_while_some_are_held_stays(spark: SparkSession):
    slots = Slots(spark)
    slots.hold(2)
    assert spark.conf.get(PARALLELISM) == "2"
    spark.conf.set(PARALLELISM, "7")
    slots.hold(3)
    slots.free()
    assert spark.conf.get(PARALLELISM) == "7"
    spark.conf.unset(PARALLELISM)


def test_a_cluster_without_room_is_told_before_anything_is_submitted(spark: SparkSession, folder: Path):
    with pytest.raises(ProcessesFailed) as failed:
        JobOnSpark(spark, counting(folder), workers=4).start()
    assert str(failed.value) == (
        "job failed: Spark has no room for 4 processes: of its 4 slots 0 are in use, and one has to stay free for its "
        "own tasks; use --master local[5], or fewer processes"
    )


def test_a_task_that_gets_no_slot_in_time_is_given_up(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """As it may happen with dynamic allocation, where slots cannot be counted in advance."""
    monkeypatch.setattr("operators.spark.launch.launcher.check_room", lambda *_, **__: None)
    monkeypatch.setattr("operators.spark.launch.launcher.START_S_MAX", 5.0)
    with pytest.raises(
        ProcessesFailed, match=r"process \d did not start within 5 s of its submission to Spark: its task"
    ):
        JobOnSpark(spark, counting(folder), workers=5).start()
    wait_until(lambda: not spark.sparkContext.statusTracker().getActiveStageIds())


def test_a_function_that_raises_ends_the_job_with_one_report(spark: SparkSession, folder: Path):
    running = JobOnSpark(spark, on_files(folder, "failing", FAILING), workers=2)
    with pytest.raises(ProcessesFailed) as failed, running:
        pass
    first, second, third, fourth, *_ = str(failed.value).splitlines()
    assert first.startswith("job failed: operator 'eighths' (0.3) failed on worker ")
    assert second == "  ZeroDivisionError: integer division or modulo by zero"
    assert third == "  the record was 'to be'"
    assert fourth.startswith(f"    {folder}/failing.py:8, in <lambda>")
    assert failed.value.code == 1


def test_types_that_a_job_has_registered_travel_along(
    spark: SparkSession, folder: Path, capfd: pytest.CaptureFixture[str]
):
    with JobOnSpark(spark, on_files(folder, "points", POINTS, "a\nbb\nccc\n"), workers=2):
        pass
    assert sorted(capfd.readouterr().out.splitlines()) == [
        'points\t0\t["Point", 1]',
        'points\t0\t["Point", 2]',
        'points\t0\t["Point", 3]',
    ]


def test_a_module_that_executors_lack_is_named_with_the_remedy(spark: SparkSession, folder: Path):
    (folder / "only_here.py").write_text("def change(line): return line\n")
    with pytest.raises(ProcessesFailed) as failed:
        JobOnSpark(spark, on_files(folder, "afar", AFAR), workers=1).start()
    assert re.fullmatch(
        r"job failed: process 0 could not start: executor driver on \S+ has no module 'only_here'; "
        r"ship it, with --py-files only_here.py or `addPyFile`",
        str(failed.value),
    )


@pytest.mark.parametrize(
    ("number", "report"),
    [(signal.SIGKILL, r"was ended by SIGKILL on "), (signal.SIGSTOP, r"\(pid \d+\) is lost: silent ")],
)
def test_a_process_that_is_killed_or_stopped_ends_the_job_and_frees_its_slots(
    spark: SparkSession, folder: Path, number: int, report: str
):
    running = JobOnSpark(spark, counting(folder), workers=2)
    with pytest.raises(ProcessesFailed, match=r"job failed: process 1 " + report), running:
        os.kill(pids(running)[1], number)
    wait_until(lambda: not spark.sparkContext.statusTracker().getActiveStageIds())


def test_a_job_that_is_stopped_leaves_no_process(spark: SparkSession, folder: Path):
    running = JobOnSpark(spark, counting(folder), workers=2)
    running.start()
    started = pids(running)
    assert running.processes == [0, 1]
    running.stop()
    assert running.wait()
    assert not any(map(is_alive, started))
