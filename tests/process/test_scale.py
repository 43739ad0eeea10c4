"""`hailer scale` and `hailer leave`: processes come and go while a job runs, and no count is wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.process.test_control import (
    HAILER,
    ask,
    flows,
    hailer,
    running,
    status,
    wait_for_status,
    wait_until,
)
from tests.processes import end

WRONG = [
    (["scale", "0"], "a job has between 1 process, which feeds it, and 1024, not 0"),
    (["scale", "two"], "invalid int value: 'two'"),
    (["scale", "2", "--dryrun"], "did you mean '--dry-run'?"),
    (["leave", "0"], "worker 0 cannot leave: it feeds the job and sends its commands"),
    (["leave", "7"], "there is no worker 7; there are 0, 1"),
    (["scael", "2"], "did you mean 'scale'?"),
]
SUMMARY = (
    r"(\d process(es)? (joined|left) \([\d, ]+\)), "
    r"moved [1-9]\d* bins?, [1-9][\d.]* (bytes|KiB), in .*, longest stall .*"
)


COUNTS = """
import time
from pathlib import Path
from operators import Job

job = Job("counts")

def slowly(line):
    if not Path("hurry").exists():
        time.sleep(0.005)
    return line.split()

@job.dataflow
def counts(flow):
    words = flow.input("lines").flat_map(slowly).map(lambda word: (word, 1))
    count = lambda word, n, total: (total + n, [(word, total + n)])
    flow.output("counts", words.stateful_state_machine(count, initial=0, bins=16, name="count"))

if Path("late").exists():
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job that takes its time until there is a file `hurry`, and its input."""
    (tmp_path / "counts.py").write_text(COUNTS)
    lines = [" ".join(f"w{(line * word) % 97}" for word in range(1, 4)) for line in range(6_000)]
    (tmp_path / "book.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


@contextmanager
def counting(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A job whose lines flow."""
    with running(folder, "counts", "--epoch-lines", "5", *arguments) as process:
        wait_for_status(folder, flows)
        yield process


def check_the_end(folder: Path, process: subprocess.Popen[str]) -> None:
    """The job comes to its end, and every word was counted from 1 to how often it occurs."""
    (folder / "hurry").touch()
    ended = end(process)
    assert ended.code == 0, ended.err
    rows = [json.loads(line) for path in (folder / "out").iterdir() for line in path.read_text().splitlines()]
    expected = Counter((folder / "book.txt").read_text().split())
    assert sorted((word, total) for _, (word, total) in rows) == sorted(
        (word, n) for word, count in expected.items() for n in range(1, count + 1)
    )


def scale(folder: Path, count: int) -> str:
    """What a scale says in the end."""
    *_, last = ask(folder, "scale", str(count)).splitlines()
    found = re.fullmatch(SUMMARY, last)
    assert found is not None, last
    return found[1]


def begin(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([HAILER, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def processes(folder: Path) -> list[int]:
    return [worker["process"] for worker in status(folder)["workers"]]


def is_alive(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_processes_join_and_leave_while_lines_flow_and_no_count_is_wrong(folder: Path):
    with counting(folder, "-n1") as process:
        assert ask(folder, "scale", "3", "--dry-run") == "2 processes would join\n"
        assert scale(folder, 3) == "2 processes joined (1, 2)"
        answer = status(folder)
        assert [worker["state"] for worker in answer["workers"]] == ["member"] * 3
        assert sorted(Counter(answer["bins"][0]["owners"]).values()) == [5, 5, 6]
        assert scale(folder, 2) == "1 process left (2)"
        assert scale(folder, 4) == "2 processes joined (3, 4)"
        assert processes(folder) == [0, 1, 3, 4]
        said = ask(folder, "leave", "3")
        assert said.splitlines()[:2] == ["process 3 is asked to leave, with worker 3", "process 3 has left"]
        assert scale(folder, 1) == "2 processes left (4, 1)"
        assert ask(folder, "scale", "1") == "nothing to do: there are as many processes\n"
        check_the_end(folder, process)


def test_workers_of_one_process_join_and_leave_together(folder: Path):
    with counting(folder, "-n1", "-w2") as process:
        assert scale(folder, 3) == "2 processes joined (1, 2)"
        said = ask(folder, "leave", "3")
        assert said.startswith("process 1 is asked to leave, with all its workers, 2 to 3\n")
        assert processes(folder) == [0, 0, 2, 2]
        check_the_end(folder, process)


def test_a_joiner_that_cannot_start_is_reported_and_the_job_goes_on(folder: Path):
    with counting(folder, "-n1") as process:
        (folder / "late").touch()
        scaling = begin(folder, "scale", "2")
        wait_until(lambda: len(status(folder)["workers"]) == 2)
        joiner = status(folder)["workers"][1]
        assert joiner["state"] == "joining"
        os.kill(joiner["pid"], signal.SIGKILL)
        (folder / "late").unlink()
        failed = end(scaling)
        assert failed.code == 1
        assert "failed: process 1 did not join: process 1 was ended by SIGKILL\nno process joined or left" in failed.out
        assert scale(folder, 2) == "1 process joined (2)"
        check_the_end(folder, process)


def test_ctrl_c_in_the_middle_of_a_scale_ends_everything(folder: Path):
    with counting(folder, "-n2") as process:
        (folder / "late").touch()
        scaling = begin(folder, "scale", "4")
        wait_until(lambda: len(status(folder)["workers"]) == 4)
        assert "a scale to 4 is under way" in hailer(folder, "scale", "2").err
        pids = [worker["pid"] for worker in status(folder)["workers"]]
        process.send_signal(signal.SIGINT)
        ended = end(process)
        assert ended.code == 130
        assert ended.err.splitlines()[-1] == f"job stopped: process {process.pid} received SIGINT"
        assert "Traceback" not in ended.err
        assert end(scaling).code == 1
        wait_until(lambda: not any(map(is_alive, pids)))


def test_a_joiner_that_is_late_does_not_keep_a_job_from_ending(folder: Path):
    with counting(folder, "-n1") as process:
        (folder / "late").touch()
        scaling = begin(folder, "scale", "2")
        wait_until(lambda: len(status(folder)["workers"]) == 2)
        check_the_end(folder, process)
        assert end(scaling).code == 1


def test_what_cannot_be_is_refused_with_the_reason_and_sigterm_lets_a_member_leave(folder: Path):
    with counting(folder, "-n2") as process:
        for arguments, complaint in WRONG:
            ended = hailer(folder, *arguments)
            assert ended.code in (1, 2), arguments
            assert complaint in ended.err
        os.kill(status(folder)["workers"][1]["pid"], signal.SIGTERM)
        wait_until(lambda: processes(folder) == [0])
        assert scale(folder, 2) == "1 process joined (2)"
        check_the_end(folder, process)


def test_a_joiner_that_is_killed_once_it_is_a_member_ends_the_job(folder: Path):
    with counting(folder, "-n1") as process:
        assert scale(folder, 2) == "1 process joined (1)"
        os.kill(status(folder)["workers"][1]["pid"], signal.SIGKILL)
        ended = end(process)
        assert ended.code == 1
        assert "job failed: process 1 was ended by SIGKILL" in ended.err
