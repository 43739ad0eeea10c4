"""`hello.py`: which worker sees which number."""

from __future__ import annotations

from pathlib import Path

from tests.examples.program import example, free_ports, run, run_together

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
