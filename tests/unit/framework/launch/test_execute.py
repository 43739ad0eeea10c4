"""A program runs on every worker of a process, and its end is everybody's end."""

from __future__ import annotations

import importlib
import threading
from functools import partial
from pathlib import Path

import pytest

from framework.errors import GraphError, JobAborted, JobStopped, OperatorFailed, PeerLost
from framework.launch.config import Config
from framework.launch.execute import example, execute, execute_from_args
from framework.launch.report import render, worst
from framework.worker.worker import Worker
from operators import Input, Probe, to_stream


@pytest.mark.parametrize("threads", [1, 3])
def test_execute_returns_what_each_worker_returned(threads: int):
    def main(worker: Worker) -> tuple[int, int, list[int]]:
        numbers, seen = Input[int](), list[int]()
        with worker.dataflow() as scope:
            numbers.stream(scope).exchange(lambda number: number).inspect(seen.append)
        for number in range(6):
            numbers.send(number)
        worker.complete()
        return worker.index, worker.peers, sorted(seen)

    expected = [(index, threads, sorted(list(range(index, 6, threads)) * threads)) for index in range(threads)]
    assert execute(main, Config(threads=threads)) == expected


def test_several_dataflows_and_a_dropped_one():
    def main(worker: Worker) -> list[str]:
        seen: list[str] = []
        forever, some, probe = Input[str](), Input[str](), Probe()
        with worker.dataflow("forever") as scope:
            forever.stream(scope).inspect(seen.append)
        with worker.dataflow("some") as scope:
            some.stream(scope).inspect(seen.append).probe(probe)
        assert worker.installed_dataflows() == [0, 1]
        some.send("kept")
        some.close()
        worker.step_while(lambda: not probe.done())
        forever.send("gone")
        worker.drop_dataflow(0)
        assert forever.closed
        with pytest.raises(GraphError, match="there is no dataflow 0"):
            worker.drop_dataflow(0)
        worker.complete()
        assert worker.installed_dataflows() == []
        return seen

    assert execute(main) == [["kept"]]


def test_the_error_of_a_worker_is_raised_with_its_cause():
    def main(worker: Worker) -> None:
        with worker.dataflow() as scope:
            to_stream(scope, [1]).exchange(lambda _: 1).map(lambda number: number // 0, name="divide")

    with pytest.raises(OperatorFailed, match=r"operator 'divide' \(0\.3\) failed on worker 1 at time 0") as caught:
        execute(main, Config(threads=2))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_no_threads_or_sockets_are_left():
    before = threading.active_count()
    execute(lambda worker: None, Config(threads=4))
    assert threading.active_count() == before


def test_from_args_gives_the_program_its_own_arguments():
    assert execute_from_args(lambda worker: (worker.index, worker.args), ["-w2", "--mine", "7"]) == [
        (0, ("--mine", "7")),
        (1, ("--mine", "7")),
    ]


def test_from_args_reports_and_exits(capsys: pytest.CaptureFixture[str]):
    def main(worker: Worker) -> None:
        raise ValueError("no such book")

    with pytest.raises(SystemExit) as caught:
        execute_from_args(main, [])
    assert caught.value.code == 1
    report = capsys.readouterr().err
    assert report.startswith("job failed: the program of worker 0 raised\n  ValueError: no such book\n")
    assert "in main" in report


def test_example_returns_what_was_built():
    assert example(lambda scope: to_stream(scope, [3, 4]).extract()).rows() == [3, 4]


def test_of_several_errors_the_cause_is_told():
    cause, echo, lost, stopped = ValueError(), JobAborted("…"), PeerLost("…"), JobStopped("…")
    assert worst([echo, lost, stopped, cause]) is cause
    assert worst([echo, lost, stopped]) is stopped
    assert worst([echo, lost]) is lost
    assert render(JobAborted("job failed: as told"), 3) == "job failed: as told"
    assert render(PeerLost("worker 0 lost worker 1: gone"), 0) == "job failed: worker 0 lost worker 1: gone"
    assert render(GraphError("a stream of another scope"), 2) == "job failed: on worker 2: a stream of another scope"


def test_a_report_leaves_out_the_frames_of_packages_that_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, marker in (("hidden", "__tracebackhide__ = True"), ("hidden_not", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"{marker}\ndef call(function):\n    function()\n")

    def fail() -> None:
        raise ValueError("it went wrong")

    try:
        importlib.import_module("hidden").call(partial(importlib.import_module("hidden_not").call, fail))
    except ValueError as error:
        report = render(error, 0)
    shown = [line.split(", in ")[1] for line in report.splitlines() if ", in " in line]
    assert shown == ["test_a_report_leaves_out_the_frames_of_packages_that_say_so", "call", "fail"]
