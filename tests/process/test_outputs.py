"""Outputs in directories: never mixed, never torn, and what cannot be written is said."""

from __future__ import annotations

import json
import os
import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.process.jobs import HAILER, counting, hailer, status, wait_until, written
from tests.process.test_serve import COUNTS, feed, serving
from tests.processes import end, run

LINES = """
from hailer import Job

job = Job("lines")

@job.dataflow
def build(flow):
    flow.output("lines", flow.input("lines").map(lambda line: {"1j": 1j, "nan": float("nan")}.get(line, line)))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text(LINES)
    (tmp_path / "book.txt").write_bytes(b"tea\ncaf\xe9\n")
    return tmp_path


def complete(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "_hailer" / "complete.json").read_text())
    return found


def test_a_job_that_is_killed_leaves_whole_epochs_and_nobody_mixes_with_it(tmp_path: Path):
    again = ("run", "counts.py", "--input", "lines=counts.py", "--output", "counts=out")
    with counting(tmp_path, "-n2") as (process, _):
        wait_until(lambda: (complete(tmp_path)["complete"] or 0) > 20)
        refused = hailer(tmp_path, *again, "--overwrite")
        assert refused.code == 2
        assert "out is being written by process" in refused.err
        for worker in status(tmp_path)["workers"]:
            os.kill(worker["pid"], signal.SIGKILL)
        assert end(process).code == 1
        said = complete(tmp_path)
        assert not said["ended"]
        counts: defaultdict[str, list[int]] = defaultdict(list)
        for name in said["files"]:
            for line in (tmp_path / "out" / name).read_text().splitlines():
                found = json.loads(line)
                assert found["epoch"] <= said["complete"]
                counts[found["record"][0]].append(found["record"][1])
        assert all(sorted(some) == list(range(1, len(some) + 1)) for some in counts.values())
        assert len(counts) == 97
        assert all(len(record) == 2 for _, record in written(tmp_path / "out")), "a line of a part is torn"
        refused = hailer(tmp_path, *again)
    assert refused.code == 2
    assert f"out has the results of job 'counts', run {said['run']}, complete up to epoch " in refused.err
    assert not (tmp_path / "out" / "_SUCCESS").exists()


def test_results_are_shown_while_a_job_waits_for_more(tmp_path: Path):
    (tmp_path / "counts.py").write_text(COUNTS)
    with serving(tmp_path, "-n2", "--output", "totals=out", "--output", "rejected=none") as (process, endpoint):
        feed(endpoint, 0, ["1 2", "2 3"])
        wait_until(lambda: complete(tmp_path)["complete"] is not None)
        said = complete(tmp_path)
        assert (said["complete"], said["ended"]) == (0, False)
        assert sorted(written(tmp_path / "out")) == [(0, ["1", 1]), (0, ["2", 2]), (0, ["2", 4]), (0, ["3", 3])]
        assert hailer(tmp_path, "finish").code == 0
        assert end(process).code == 0
    assert complete(tmp_path) == {**said, "ended": True}
    assert sorted(path.name for path in (tmp_path / "none").iterdir()) == ["_SUCCESS", "_hailer"]


def test_results_of_an_earlier_run_are_not_mixed_in(folder: Path):
    command = ("run", "job.py", "--input", "lines=book.txt", "--output", "lines=out")
    assert hailer(folder, *command, "-n2").code == 0
    first = complete(folder)
    refused = hailer(folder, *command)
    assert (refused.code, refused.err.splitlines()[-1].partition(": error: ")[2]) == (
        2,
        f"output 'lines': {folder / 'out'} has the results of job 'lines', run {first['run']}, complete up to epoch 0; "
        "name another directory, or say --overwrite",
    )
    assert hailer(folder, *command, "--overwrite").code == 0
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["_SUCCESS", "_hailer", "part-0-0-w0.jsonl"]
    second = complete(folder)
    assert second["run"] != first["run"]
    assert (second["complete"], second["ended"], second["files"]) == (0, True, ["part-0-0-w0.jsonl"])
    text = (folder / "out" / "part-0-0-w0.jsonl").read_bytes()
    assert text == b'{"epoch": 0, "record": "tea"}\n{"epoch": 0, "record": "caf\xe9"}\n'


def test_a_byte_that_is_no_text_is_printed_as_it_was(folder: Path):
    command = f"{HAILER} run job.py -n2 --input lines=book.txt | od -An -c | grep -c 351"
    ended = run("bash", "-c", command, state=folder, cwd=folder)
    assert (ended.code, ended.out, ended.complaints) == (0, "1\n", [])


@pytest.mark.parametrize(
    ("line", "command", "report"),
    [
        (
            "1j",
            "{} --output lines=out",
            "OutputFailed: output 'lines' cannot write a complex as JSON; map it to what JSON has: text, numbers, "
            "lists, dicts\n  the record was 1j",
        ),
        (
            "nan",
            "{}",
            "OutputFailed: output 'lines' cannot write the number nan as JSON; write None in its place, or ask for it "
            "with --allow-nan\n  the record was nan",
        ),
        (
            "line",
            "ulimit -f 1; {} --output lines=out",
            "OutputFailed: output 'lines' cannot write FOLDER/out/_hailer/w0-1.unfinished: File too large",
        ),
        ("line", "{} > /dev/full", "OutputFailed: output 'lines' cannot be printed: No space left on device"),
    ],
)
def test_what_cannot_be_written_names_output_and_path_or_record(folder: Path, line: str, command: str, report: str):
    (folder / "book.txt").write_text(f"{line}\n" * 300)
    command = command.format(f"{HAILER} run job.py --input lines=book.txt")
    ended = run("bash", "-c", command, state=folder, cwd=folder)
    assert ended.code == 1
    head, _, cause = ended.err.rstrip().partition("\n  operators.errors.")
    assert head.startswith("job failed: operator 'output lines' (")
    assert cause == report.replace("FOLDER", str(folder))
    assert list((folder / "out").glob("*.jsonl")) == list((folder / "out").glob("_hailer/*.unfinished")) == []


def test_what_is_asked_for_is_written(folder: Path):
    (folder / "book.txt").write_text("nan\n")
    ended = hailer(folder, "run", "job.py", "--input", "lines=book.txt", "--allow-nan")
    assert (ended.code, ended.out, ended.complaints) == (0, "lines\t0\tNaN\n", [])
