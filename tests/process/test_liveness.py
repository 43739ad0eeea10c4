"""A process that is stopped or deadlocked ends the job, with a report; one that is merely busy is named."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.process.jobs import ask, check_the_end, counting, hailer, status, wait_for_status, wait_until
from tests.processes import end

SOURCE = """
import os
import signal
import threading
import time
from pathlib import Path

from framework.launch import liveness
from operators import Job

liveness.UNSTEPPED_S = 2.0
job = Job("counts")
never_released = threading.Lock()
never_released.acquire()

def split(line):
    while Path("spin").exists():
        for _ in range(1_000_000):  # a call that lets go of the interpreter lock more often starves other threads
            pass
    if Path("keep").exists():
        began_s, calls = time.monotonic(), 5_000_000
        while time.monotonic() < began_s + 4:
            began_s, calls = time.monotonic(), 2 * calls
            sum(range(calls))
        Path("keep").unlink(missing_ok=True)
    if Path("wait").exists():
        never_released.acquire()
    return line.split()

@job.dataflow
def counts(flow):
    if Path("stop").exists():
        os.kill(os.getpid(), signal.SIGSTOP)
    words = flow.input("lines").flat_map(split).map(lambda word: (word, 1))
    count = lambda word, n, total: (total + n, [(word, total + n)])
    flow.output("counts", words.stateful_state_machine(count, initial=0, bins=16, name="count"))
"""


def iter_until(read: Callable[[], str], beginning: str) -> Iterator[str]:
    """The lines up to the one that begins so."""
    while line := read():
        yield line
        if line.startswith(beginning):
            return
    raise AssertionError(f"nothing begins with {beginning!r}")


def pids(folder: Path) -> list[int]:
    return [worker["pid"] for worker in status(folder)["workers"]]


def test_a_process_that_is_stopped_ends_the_job(tmp_path: Path):
    with counting(tmp_path, "-n2", "--heartbeat-timeout", "2", source=SOURCE) as (process, _):
        _, stopped = pids(tmp_path)
        os.kill(stopped, signal.SIGSTOP)
        ended = end(process)
        assert ended.code == 1
        assert f"job failed: process 1 (pid {stopped}) is lost: silent since " in ended.err
        assert "SIGKILL" not in ended.err


def test_who_is_stopped_with_the_supervisor_or_keeps_the_interpreter_lock_is_not_lost(tmp_path: Path):
    with counting(tmp_path, "-n2", "--heartbeat-timeout", "3", source=SOURCE) as (process, feed):
        processes = [*pids(tmp_path), process.pid]  # who is continued first beats again before it is looked at
        for pid in reversed(processes):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(4)
        for pid in processes:
            os.kill(pid, signal.SIGCONT)
        (tmp_path / "keep").touch()
        wait_until(lambda: process.poll() is not None or not (tmp_path / "keep").exists())
        check_the_end(tmp_path, process, feed)


def test_a_worker_in_a_long_step_is_named_and_waited_for(tmp_path: Path):
    with counting(tmp_path, "-n1", source=SOURCE) as (process, feed):
        (tmp_path / "spin").touch()
        answer = wait_for_status(tmp_path, lambda answer: answer["workers"][0]["stack"])
        [worker] = answer["workers"]
        assert worker["frontier"] is None
        assert worker["stack"][0].endswith(", in split")
        assert re.search(r"\.py:\d+, in \w+: ", ask(tmp_path, "status"))  # of ours, or what it has called
        (tmp_path / "spin").unlink()
        assert process.stderr is not None
        said = "".join(iter_until(process.stderr.readline, "hailer: worker 0 steps again, after "))
        assert re.search(r"hailer: worker 0 has not stepped for \d+ s; it is in\n", said)
        assert ", in split\n" in said
        check_the_end(tmp_path, process, feed)


def test_a_lock_that_is_never_released_ends_the_job_if_steps_are_limited(tmp_path: Path):
    with counting(tmp_path, "-n2", "--step-timeout", "5", source=SOURCE) as (process, _):
        (tmp_path / "wait").touch()
        ended = end(process)
        assert ended.code == 1
        assert "was killed, since one of its workers was in a step longer than --step-timeout allows" in ended.err
        assert re.search(r"hailer: worker \d has not stepped for \d s; it is in\n", ended.err)
        assert "    never_released.acquire()\n" in ended.err


def test_a_joiner_that_is_stopped_is_ended_and_the_job_goes_on(tmp_path: Path):
    with counting(tmp_path, "-n1", "--heartbeat-timeout", "2", source=SOURCE) as (process, feed):
        (tmp_path / "stop").touch()
        scaled = hailer(tmp_path, "scale", "2")
        assert scaled.code == 1
        assert "failed: process 1 did not join: process 1 (pid " in scaled.out
        assert " is lost: silent since " in scaled.out
        check_the_end(tmp_path, process, feed)
