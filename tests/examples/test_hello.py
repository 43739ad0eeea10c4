"""`hello.py`: which worker sees which number."""

from __future__ import annotations

from pathlib import Path

from tests.examples.program import example
from tests.processes import end, free_ports, run, run_together, started

EVEN = [f"worker 0: seen {number}" for number in (0, 2, 4, 6, 8)]
ODD = [f"worker 1: seen {number}" for number in (1, 3, 5, 7, 9)]


def test_two_terminals_each_see_their_own_numbers(tmp_path: Path):
    port = str(free_ports(2))
    first, second = run_together(
        [example("hello.py", "-n2", "-w1", "-p", str(process), "--base-port", port, "0.01") for process in (0, 1)],
        state=tmp_path,
    )
    assert (first.lines, second.lines) == (EVEN, ODD)


def test_one_command_starts_both_processes(tmp_path: Path):
    assert sorted(run(*example("hello.py", "-n2", "0.01"), state=tmp_path).lines) == EVEN + ODD


def test_threads_see_the_same_as_processes(tmp_path: Path):
    assert sorted(run(*example("hello.py", "-w2", "0"), state=tmp_path).lines) == EVEN + ODD


def test_one_worker_sees_everything(tmp_path: Path):
    assert run(*example("hello.py", "0"), state=tmp_path).lines == [f"worker 0: seen {n}" for n in range(10)]


def test_a_third_process_joins_and_sees_its_numbers(tmp_path: Path):
    """The session of the module's docstring: until the third is in, numbers go modulo 2, and modulo 3 from then on."""
    port, pause_s = str(free_ports(3)), "0.6"
    with (
        started(example("hello.py", "-n2", "-w1", "-p0", "--base-port", port, pause_s), tmp_path) as first,
        started(example("hello.py", "-n2", "-w1", "-p1", "--base-port", port, pause_s), tmp_path) as second,
    ):
        assert first.stdout is not None
        assert first.stdout.readline() == "worker 0: seen 0\n"
        third = run(
            *example("hello.py", "-n2", "-w1", "-p2", "--join", "0", "--nn", "3", "--base-port", port, pause_s),
            state=tmp_path,
        )
        ended = [end(first), end(second), third]
    assert [one.code for one in ended] == [0, 0, 0], ended
    saw = {0: 0}
    for worker, one in enumerate(ended):
        for line in one.out.splitlines():
            prefix, number = line.rsplit(" ", 1)
            assert (prefix, int(number) in saw) == (f"worker {worker}: seen", False)
            saw[int(number)] = worker
    switched = [
        since for since in range(10) if saw == {number: number % (2 if number < since else 3) for number in range(10)}
    ]
    assert switched, saw
    assert 2 in saw.values()
