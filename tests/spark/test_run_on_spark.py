"""`hailer run --on spark`: the command, and all others that speak to its job."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.process.jobs import HAILER, ask, flows, hailer, status, wait_for_status, wait_until
from tests.process.test_scale import is_alive, scale
from tests.processes import ROOT, end, run
from tests.spark.counting import EPOCH_LINES, WAIT_S, write_counting


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The job on Spark, once its lines flow."""
    files = ["--input", "lines=book.txt", "--output", "counts=out", "--epoch-lines", str(EPOCH_LINES)]
    process = subprocess.Popen(
        [HAILER, "run", "counts.py", "--on", "spark", *arguments, *files],
        cwd=folder,
        env={**os.environ, "HAILER_SECRET_FILE": str(folder / "secret")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        wait_until(lambda: process.poll() is not None or list(folder.glob(".hailer/*/job.json")), WAIT_S)
        wait_for_status(folder, flows)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        end(process)


@pytest.mark.timeout(300)
def test_a_job_in_a_local_spark_is_watched_scaled_and_interrupted(tmp_path: Path):
    write_counting(tmp_path)
    with running(tmp_path, "--master", "local[4]", "-n2") as process:
        assert scale(tmp_path, 3) == "1 process joined (2)"
        refused = hailer(tmp_path, "scale", "4")
        assert refused.code == 1
        assert "failed: Spark has no room for 1 process: of its 4 slots 3 are in use" in refused.out
        assert scale(tmp_path, 2) == "1 process left (2)"
        [table] = status(tmp_path)["bins"]
        assert ask(tmp_path, "move", "0", "--to", str(1 - table["owners"][0])).startswith("moved 1 bin, ")
        pids = [worker["pid"] for worker in status(tmp_path)["workers"]]
        os.killpg(process.pid, signal.SIGINT)  # Ctrl-C reaches Java, too
        ended = end(process)
        assert ended.code == 130
        said = ended.err.splitlines()
        assert said[0] == "hailer: starting Spark"
        assert re.fullmatch(r"hailer: Spark \S+ runs at local\[4\] after \S+ s", said[1])
        assert re.fullmatch(r"hailer: 2 processes run in tasks of Spark after \S+ s", said[2])
        assert [line for line in said if not line.startswith("hailer: ")] == [
            f"job stopped: process {process.pid} received SIGINT"
        ]
        assert not any(map(is_alive, pids))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ((HAILER, "run", "counts.py", "--on", "spark"), "hailer: starting Spark\njob failed"),
        ((sys.executable, ROOT / "examples" / "wordcount_spark.py"), "starting Spark\nwordcount_spark.py"),
    ],
)
def test_without_java_it_says_what_the_doctor_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str | Path, ...], said: str
):
    write_counting(tmp_path)
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "dirname", "env", "uname", "ps"):  # what Spark's own scripts begin with
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or "/")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    ended = run(*command, state=tmp_path, cwd=tmp_path)
    reason = "Spark did not start: no Java; install Java 17 and put it on PATH, or set JAVA_HOME"
    assert (ended.code, ended.out, ended.err) == (1, "", f"{said}: {reason}\n")
    assert "no Java; only jobs beside Spark need it: install Java 17" in hailer(tmp_path, "doctor").out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--master", "local[4]"], "--master goes with --on spark"),
        (["--on", "spark", "-n2", "-p1"], "--process does not go with --on spark"),
        (
            ["--on", "spark", "--conf", "spark.executor.memory"],
            "write KEY=VALUE, such as --conf spark.ex",
        ),
        (["--on", "spark", "--py-files", "nowhere.py"], "--py-files: there is no file nowhere.py"),
        (["--on", "sparks"], "did you mean 'spark'?"),
    ],
)
def test_flags_that_make_no_sense(tmp_path: Path, arguments: list[str], complaint: str):
    write_counting(tmp_path)
    ended = hailer(tmp_path, "run", "counts.py", *arguments)
    assert ended.code == 2
    assert complaint in ended.err
