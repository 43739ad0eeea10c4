"""Workers join and leave a job of real processes that counts words without pause, and every count stays right.

All processes run `counting.py`. Each word's counts, put together from the files of all workers, are 1, 2, ... n: none
is missing, none comes twice. To repeat the long run: `pytest tests/process/test_rescale.py -k grows --rescale-runs 20`.
"""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.crew import Crew
from tests.processes import Program, end, free_ports, started, wait_for_line


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path, free_ports(16))
    try:
        yield crew
    finally:
        crew.end()


def test_a_job_grows_and_shrinks_from_2_to_8_to_3_to_1_to_4(crew: Crew, rescale_run: int):
    crew.start()
    for process in range(2, 8):
        crew.join(process, through=process % 2)
    crew.wait_until_in(*range(2, 8))
    crew.leave(1, 2, 3, 4, 5)
    crew.goes_on()
    crew.leave(6, 7)
    crew.goes_on()
    for process in range(8, 11):
        crew.join(process)
    crew.wait_until_in(8, 9, 10)
    crew.goes_on(10)
    crew.finish()


def test_joiners_are_served_though_the_feeder_waits_for_them_and_stay_without_those_who_let_them_in(crew: Crew):
    """Nothing is fed ahead of the outputs, and what is dealt to a joiner waits until it has its routing state."""
    crew.start("--ahead", "1")
    for process in (2, 3):
        crew.join(process, through=1)
    crew.wait_until_in(2, 3)
    crew.join(4, through=2)
    crew.wait_until_in(4)
    crew.leave(1, 2)
    crew.goes_on(4)
    crew.finish()


def test_workers_join_and_leave_where_links_are_encrypted_and_who_does_not_encrypt_is_refused(crew: Crew):
    """All processes take the others for those of another machine."""
    crew.start("--encrypted")
    crew.join(2, "--encrypted")
    crew.wait_until_in(2)
    crew.join(3)
    assert crew.code(3) == 1, crew.text(3)
    assert "it encrypts this connection, and this end does not: give --no-tls to all processes" in crew.text(3)
    crew.join(4, "--encrypted", through=2)
    crew.wait_until_in(4)
    crew.leave(1)
    crew.goes_on(4)
    crew.finish()


def test_workers_join_and_leave_while_bins_move(crew: Crew):
    """So many bins that the share of one joiner is still on its way when the next comes, and when it leaves again."""
    many = ("--bins", "4096")
    crew.start(*many)
    crew.join(2, *many)
    crew.wait_until_in(2)
    crew.join(3, *many)
    crew.wait_until_in(3)
    crew.leave(2)
    crew.goes_on()
    crew.finish()


def test_a_slow_peer_only_slows(crew: Crew):
    crew.run(0)
    crew.run(1, "--slow-s", "0.02")
    crew.wait_until_in(0, 1)
    crew.join(2, through=1)
    crew.wait_until_in(2)
    crew.leave(2)
    crew.goes_on()
    crew.finish()


def test_a_peer_that_is_paused_is_waited_for_and_who_dies_meanwhile_leaves_the_queue(crew: Crew):
    crew.start()
    crew.signal(1, signal.SIGSTOP)
    crew.join(2)
    crew.wait_for(0, "worker 2 asks to join")
    crew.join(3)
    crew.wait_for(3, "waits its turn")
    crew.signal(3, signal.SIGKILL)
    crew.code(3)
    assert "worker 2 is up" not in crew.text(2), "which asked before worker 3 was even started"
    crew.signal(1, signal.SIGCONT)
    crew.wait_until_in(2)
    crew.join(4)
    crew.wait_until_in(4)
    crew.goes_on(2)
    crew.signal(1, signal.SIGSTOP)
    crew.signal(2, signal.SIGTERM)
    crew.wait_for(2, " leave")
    assert crew.processes[2].poll() is None
    crew.signal(1, signal.SIGCONT)
    assert crew.code(2) == 0, crew.text(2)
    crew.finish()


def test_a_joiner_that_dies_is_done_without_in_whatever_phase(crew: Crew):
    """From its first word to when all members hold records back for it. Once it has joined its death is a member's.

    One that was not admitted yet may come again under its number.
    """
    crew.start()
    phases = ["turn", "links", "state", "missing batches", "dataflows", "enlisting", "enlisted"]
    for process, phase in enumerate(phases, 2):
        crew.join(process, "--die", phase)
        assert crew.code(process) == -signal.SIGKILL, crew.text(process)
        crew.goes_on()
    crew.join(2)
    crew.wait_until_in(2)
    crew.goes_on(2)
    crew.leave(2)
    crew.finish()


def test_who_does_not_fit_is_refused_with_a_reason_and_the_job_goes_on(crew: Crew):
    crew.start()

    def refused(process: int, reason: str) -> None:
        assert crew.code(process) == 1, crew.text(process)
        assert reason in crew.text(process)
        crew.goes_on()

    crew.join(2, "--other-program")
    refused(2, "this program does not fit the job that worker 2 was to join")
    crew.run(3, "--join", "0", threads=2)
    refused(3, "refused this process: it has 2 threads, but the processes of this cluster have 1")
    crew.run(3, "--join", "0", secret="other")
    refused(3, "has another cluster secret than this process; give both the same file")
    crew.join(3, "--other-version")
    refused(3, "cannot be talked to")
    crew.join(3)
    crew.wait_until_in(3)
    crew.leave(3)
    crew.join(3)
    refused(3, "this job has, or had, a worker 3, and no number is used twice; use a higher process number")
    crew.finish()


def test_processes_of_several_threads_join_and_leave(crew: Crew):
    crew.threads = 2
    crew.start()
    crew.join(2)
    crew.join(3, through=1)
    crew.wait_until_in(2, 3)
    crew.leave(1, 2)
    crew.goes_on()
    crew.finish()


CLOSING = """
from pathlib import Path
from hailer import Input, Worker, execute_from_args

def main(worker: Worker) -> None:
    numbers = Input[int]()
    with worker.dataflow() as scope:
        numbers.stream(scope)
    if worker.bootstrap():
        worker.stay()
        return
    worker.membership.on_joined.append(lambda _: worker.membership.close())
    if worker.id == 0:  # two threads may print into one line
        print("it runs", flush=True)
    while not Path("ended").exists():
        worker.step_or_park(0.01)

execute_from_args(main)
"""


def test_a_process_of_which_one_worker_joins_and_the_other_may_not_does_not_end_the_job(tmp_path: Path):
    """The job is about to end as soon as the first has joined."""
    program, shape = Program.write(tmp_path, CLOSING), ("-n1", "-w2", "--base-port", str(free_ports(2)))
    with started((sys.executable, program.path, *shape, "-p0"), tmp_path, tmp_path) as job:
        wait_for_line(job, "it runs")
        with started((sys.executable, program.path, *shape, "-p1", "--join", "0"), tmp_path, tmp_path) as joiner:
            assert joiner.stderr is not None
            said = next(line for line in joiner.stderr if "the other workers of its process leave" in line)
            (tmp_path / "ended").touch()
            assert end(joiner).code == 0
        assert end(job).code == 0
    assert re.fullmatch(r"hailer: worker 0 did not let worker \d join: the job is about to end; the other .*\n", said)


def test_the_lowest_worker_leaves_where_another_commands(crew: Crew):
    crew.start("--commander", "1")
    crew.join(2)
    crew.wait_until_in(2)
    crew.leave(0)
    crew.join(3, "--commander", "1", through=2)
    crew.wait_until_in(3)
    crew.goes_on(3)
    crew.finish()


def test_a_second_sigterm_stops_at_once(crew: Crew):
    """The first asks to leave, which the paused peer holds up; with the second the process ends, and the job fails."""
    crew.start()
    crew.join(2)
    crew.wait_until_in(2)
    crew.signal(1, signal.SIGSTOP)
    crew.signal(2, signal.SIGTERM)
    crew.wait_for(2, "worker 2 leaves: ")
    crew.signal(2, signal.SIGTERM)
    assert crew.code(2) == 128 + signal.SIGTERM
    crew.signal(1, signal.SIGCONT)
    assert [crew.code(process) for process in (0, 1)] == [1, 1]
    for process in (0, 1):
        assert crew.text(process).splitlines()[-1].startswith("job stopped: process ")


ENDED_S = 5.0
"""How long survivors take to end after a member has died; docs/howto/rescale.md says so."""


def test_a_member_that_dies_ends_the_job_on_all_others_with_a_report(crew: Crew):
    crew.start()
    crew.join(2)
    crew.wait_until_in(2)
    crew.goes_on(2)
    began_s = time.monotonic()
    crew.signal(1, signal.SIGKILL)
    assert [crew.code(process) for process in (0, 2)] == [1, 1]
    assert time.monotonic() - began_s < ENDED_S
    for process in (0, 2):
        said = crew.text(process)
        assert said.count("job failed") == 1, said
        assert re.search(
            r"lost worker 1: worker 1 at 127.0.0.1:\d+: the connection .*; dataflow 0 was complete before \d+$",
            said,
            re.M,
        )
    for word, totals in crew.counts().items():
        assert len(set(totals)) == len(totals), f"{word} has a count twice"
