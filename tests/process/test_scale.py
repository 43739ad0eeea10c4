"""`hailer scale` and `hailer leave`: processes come and go while a job runs, and no count is wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from tests.process.jobs import HAILER, ask, check_the_end, counting, status, wait_until
from tests.processes import end, start

SUMMARY = (
    r"(\d process(es)? (joined|left) \([\d, ]+\)), "
    r"moved [1-9]\d* bins?, [1-9][\d.]* (bytes|KiB), in .*, longest stall .*"
)


def scale(folder: Path, count: int) -> str:
    """What a scale says in the end."""
    *_, last = ask(folder, "scale", str(count)).splitlines()
    found = re.fullmatch(SUMMARY, last)
    assert found is not None, last
    return found[1]


def check_balance(answer: dict[str, Any]) -> None:
    """Each worker has about as many keys."""
    keys = [worker["keys"] for worker in answer["workers"]]
    assert max(keys) * len(keys) <= 1.4 * sum(keys), keys


def begin(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return start((HAILER, *arguments), folder, folder)


def processes(folder: Path) -> list[int]:
    return [worker["process"] for worker in status(folder)["workers"]]


def is_alive(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_processes_join_and_leave_while_lines_flow_and_no_count_is_wrong(tmp_path: Path):
    with counting(tmp_path, "-n1") as (process, feed):
        shown = ask(tmp_path, "scale", "3", "--dry-run")
        assert shown.startswith("2 processes would join\nstep  bins  bytes  bin: from→to\n")
        assert scale(tmp_path, 3) == "2 processes joined (1, 2)"
        answer = status(tmp_path)
        assert [worker["state"] for worker in answer["workers"]] == ["member"] * 3
        check_balance(answer)
        assert scale(tmp_path, 2) == "1 process left (2)"
        assert scale(tmp_path, 4) == "2 processes joined (3, 4)"
        assert processes(tmp_path) == [0, 1, 3, 4]
        said = ask(tmp_path, "leave", "3")
        assert said.splitlines()[:2] == ["process 3 is asked to leave, with worker 3", "process 3 has left"]
        os.kill(status(tmp_path)["workers"][2]["pid"], signal.SIGTERM)
        wait_until(lambda: processes(tmp_path) == [0, 1])
        assert scale(tmp_path, 1) == "1 process left (1)"
        assert ask(tmp_path, "scale", "1") == "nothing to do: there are as many processes\n"
        check_the_end(tmp_path, process, feed)


def test_workers_of_one_process_join_and_leave_together(tmp_path: Path):
    with counting(tmp_path, "-n1", "-w2") as (process, feed):
        assert scale(tmp_path, 3) == "2 processes joined (1, 2)"
        said = ask(tmp_path, "leave", "3")
        assert said.startswith("process 1 is asked to leave, with all its workers, 2 to 3\n")
        assert processes(tmp_path) == [0, 0, 2, 2]
        check_the_end(tmp_path, process, feed)


def test_a_joiner_that_cannot_start_is_reported_and_one_that_is_late_not_waited_for(tmp_path: Path):
    with counting(tmp_path, "-n1") as (process, feed):
        (tmp_path / "late").touch()
        scaling = begin(tmp_path, "scale", "2")
        wait_until(lambda: len(status(tmp_path)["workers"]) == 2)
        joiner = status(tmp_path)["workers"][1]
        assert joiner["state"] == "joining"
        os.kill(joiner["pid"], signal.SIGKILL)
        failed = end(scaling)
        assert failed.code == 1
        assert "failed: process 1 did not join: process 1 was ended by SIGKILL\n" in failed.out
        (tmp_path / "late").unlink()
        assert scale(tmp_path, 2) == "1 process joined (2)"
        (tmp_path / "late").touch()
        scaling = begin(tmp_path, "scale", "3")
        wait_until(lambda: len(status(tmp_path)["workers"]) == 3)
        check_the_end(tmp_path, process, feed)
        assert end(scaling).code == 1


def test_ctrl_c_in_the_middle_of_a_scale_ends_everything(tmp_path: Path):
    with counting(tmp_path, "-n2") as (process, _):
        (tmp_path / "late").touch()
        scaling = begin(tmp_path, "scale", "4")
        wait_until(lambda: len(status(tmp_path)["workers"]) == 4)
        again = begin(tmp_path, "scale", "3")
        assert "failed: superseded by scale to 3\n" in end(scaling).out
        pids = [worker["pid"] for worker in status(tmp_path)["workers"]]
        process.send_signal(signal.SIGINT)
        ended = end(process)
        assert ended.code == 130
        assert ended.err.splitlines()[-1] == f"job stopped: process {process.pid} received SIGINT"
        assert "Traceback" not in ended.err
        assert end(again).code == 1
        wait_until(lambda: not any(map(is_alive, pids)))


def test_a_joiner_that_is_killed_once_it_is_a_member_ends_the_job(tmp_path: Path):
    with counting(tmp_path, "-n1") as (process, _):
        assert scale(tmp_path, 2) == "1 process joined (1)"
        os.kill(status(tmp_path)["workers"][1]["pid"], signal.SIGKILL)
        ended = end(process)
        assert ended.code == 1
        assert "job failed: process 1 was ended by SIGKILL" in ended.err


def test_a_scale_that_changes_its_mind_ends_with_as_many_as_were_asked_for_last(tmp_path: Path):
    """Whoever was to leave stays, and has bins as before."""
    with counting(tmp_path, "-n3") as (process, feed):
        scaling = begin(tmp_path, "scale", "1", "--strategy", "fluid", "--gap", "1")
        wait_until(lambda: (change := status(tmp_path)["scale"]) and change["bins_moved"] >= 1)
        *_, last = ask(tmp_path, "scale", "3").splitlines()
        assert re.fullmatch(r"moved \d+ bins?, .*", last), last
        ended = end(scaling)
        assert (ended.code, ended.out.splitlines()[0]) == (1, "failed: superseded by scale to 3")
        assert processes(tmp_path) == [0, 1, 2]
        assert sorted(Counter(status(tmp_path)["bins"][0]["owners"])) == [0, 1, 2]
        check_the_end(tmp_path, process, feed)
