"""A real cluster, of a master and two workers that each have an executor: jobs grow there, and executors die."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from framework.errors import ProcessesFailed
from operators.spark import JobOnSpark
from operators.spark.launch.session import SparkOptions, open_session
from tests.process.jobs import wait_until
from tests.process.test_scale import is_alive
from tests.processes import free_ports
from tests.spark.counting import WAIT_S, check_counts, counting, pids

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("default")]

SPARK_HOME = Path(pyspark.__file__).parent
SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m", "spark.executor.cores": "2"}


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    port = free_ports(1)
    url = f"spark://127.0.0.1:{port}"
    where = ["--host", "127.0.0.1", "--webui-port", "0"]
    daemons = [spark_daemon(folder, "master.Master", *where, "--port", str(port))]
    try:
        wait_until(lambda: is_listening(port), WAIT_S)
        for number in (1, 2):
            own = ["-c", "2", "-m", "1g", "-d", str(folder / f"work-{number}")]
            daemons.append(spark_daemon(folder, "worker.Worker", *where, *own, url))
        yield url
    finally:
        for daemon in daemons:
            daemon.kill()
            daemon.wait()


@pytest.fixture(scope="module")
def spark(master: str) -> Iterator[SparkSession]:
    with open_session("tests", SparkOptions(master, tuple(SETTINGS.items()))) as session:
        yield session


def spark_daemon(folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Without our packages on its path: executors have to get them from the driver."""
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environ |= {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_DIRS": str(folder), "PYSPARK_PYTHON": sys.executable}
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with (folder / "daemons.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def executor_of(pid: int) -> int:
    """The Java process that a worker's process descends from."""
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def test_a_job_grows_and_shrinks_over_executors_and_no_count_is_wrong(spark: SparkSession, folder: Path):
    with JobOnSpark(spark, counting(folder), workers=2) as running:
        running.scale(3)
        assert len({executor_of(pid) for pid in pids(running)}) == 2
        running.scale(2)
        assert running.processes == [0, 1]
        (folder / "hurry").touch()
    check_counts(folder)


def test_an_executor_that_is_killed_ends_the_job_with_a_report(spark: SparkSession, folder: Path):
    running = JobOnSpark(spark, counting(folder), workers=2)
    running.start()
    processes = pids(running)
    os.kill(executor_of(processes[1]), signal.SIGKILL)
    with pytest.raises(ProcessesFailed) as failed:
        running.wait()
    assert "job failed: process 1 was lost with its executor on " in str(failed.value)
    assert failed.value.code == 1
    assert not any(map(is_alive, processes))
