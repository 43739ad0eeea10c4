"""`hailer run --on spark`: the command, in a local Spark and on a real cluster of two executors."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from tests.process.commands import end, free_base_port
from tests.process.test_control import HAILER, ask, environment, flows, hailer, status, wait_for_status
from tests.process.test_scale import check_the_end, is_alive, processes, scale
from tests.spark.counting import write_counting

pytestmark = pytest.mark.timeout(300)

START_S = 120.0
SPARK_HOME = Path(pyspark.__file__).parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_counting(tmp_path, lines=20_000)
    return tmp_path


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The job on Spark, once its lines flow."""
    command = ["run", "counts.py", "--on", "spark", "-n2", "--epoch-lines", "20", *arguments]
    process = subprocess.Popen(
        [HAILER, *command, "--input", "lines=book.txt", "--output", "counts=out"],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: process.poll() is not None or bool(list(folder.glob(".hailer/*/job.json"))))
        wait_for_status(folder, flows)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        end(process)


def wait_until(condition: object) -> None:
    assert callable(condition)
    deadline_s = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {START_S} s: {condition}"
        time.sleep(0.05)


def test_a_job_in_a_local_spark_is_watched_scaled_and_interrupted(folder: Path):
    with running(folder, "--master", "local[4]") as process:
        assert scale(folder, 3) == "1 process joined (2)"
        refused = hailer(folder, "scale", "4")
        assert refused.code == 1
        assert "failed: Spark has no room for 1 process: of its 4 slots 3 are in use" in refused.out
        assert scale(folder, 2) == "1 process left (2)"
        assert ask(folder, "move", "0", "--to", "1").startswith("moved 1 bin, ")
        pids = [worker["pid"] for worker in status(folder)["workers"]]
        process.send_signal(signal.SIGINT)
        ended = end(process)
        assert ended.code == 130
        lines = [line for line in ended.err.splitlines() if not line.startswith("hailer: worker 2 ")]
        assert lines == [f"job stopped: process {process.pid} received SIGINT"]
        assert not any(map(is_alive, pids))


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A cluster of a master and two workers, each with an executor of two slots."""
    port = free_base_port(1)
    url = f"spark://127.0.0.1:{port}"
    where = ["--host", "127.0.0.1", "--webui-port", "0"]
    daemons = [spark_daemon(tmp_path, "master.Master", *where, "--port", str(port))]
    try:
        wait_until(lambda: is_listening(port))
        for number in (1, 2):
            own = ["-c", "2", "-m", "1g", "-d", str(tmp_path / f"work-{number}")]
            daemons.append(spark_daemon(tmp_path, "worker.Worker", *where, *own, url))
        yield url
    finally:
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(30)


def spark_daemon(folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environ |= {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(folder)}
    with (folder / "daemons.log").open("ab") as log:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        return subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def executor_of(pid: int) -> int:
    """The Java process that a worker's process descends from."""
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def on_cluster(master: str) -> list[str]:
    settings = ["spark.driver.host=127.0.0.1", "spark.executor.memory=512m"]
    return ["--master", master, *(word for setting in settings for word in ("--conf", setting))]


def test_a_job_on_a_cluster_grows_shrinks_and_ends_right(folder: Path, master: str):
    with running(folder, *on_cluster(master)) as process:
        assert scale(folder, 3) == "1 process joined (2)"
        assert scale(folder, 2) == "1 process left (2)"
        assert processes(folder) == [0, 1]
        check_the_end(folder, process)


def test_an_executor_that_is_killed_ends_the_job_with_a_report(folder: Path, master: str):
    with running(folder, *on_cluster(master)) as process:
        workers = status(folder)["workers"]
        pids = [worker["pid"] for worker in workers]
        os.kill(executor_of(pids[1]), signal.SIGKILL)
        ended = end(process)
        assert ended.code == 1
        assert "job failed: process 1 was lost with its executor on " in ended.err
        assert "Traceback" not in ended.err
        assert not any(map(is_alive, pids))
