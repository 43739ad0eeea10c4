"""Whose a directory of results is, and what may be removed there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from framework.errors import ConfigError
from operators.errors import OutputFailed
from operators.job.output_directory import OutputDirectory, check_free
from operators.job.parts import Completion, PartName


def complete(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "_hailer" / "complete.json").read_text())
    return found


def finished(path: Path) -> str:
    """A run of the job `counts` that has ended; its name."""
    directory = OutputDirectory("totals", path, "counts")
    directory.claim()
    file = directory.open_unfinished(0)
    file.write(b"1\n")
    name = PartName(0, 4, 0)
    directory.show(file, name)
    completion = Completion()
    completion.report(name)
    completion.end()
    directory.publish(completion, ended=True)
    directory.release()
    run: str = complete(path)["run"]
    return run


def names(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def test_a_run_leaves_its_parts_and_what_says_that_they_are_complete(tmp_path: Path):
    run = finished(tmp_path)
    assert names(tmp_path) == ["_SUCCESS", "_hailer/complete.json", "_hailer/lock", "part-0-4-w0.jsonl"]
    assert complete(tmp_path) == {
        "job": "counts",
        "output": "totals",
        "run": run,
        "complete": 4,
        "ended": True,
        "files": ["part-0-4-w0.jsonl"],
    }


def test_results_are_not_mixed_with_others(tmp_path: Path):
    run = finished(tmp_path)
    refusal = (
        f"output 'sums': {tmp_path} has the results of job 'counts', run {run}, complete up to epoch 4; "
        "name another directory, or say --overwrite"
    )
    for attempt in (
        lambda: check_free("sums", tmp_path, overwrite=False),
        OutputDirectory("sums", tmp_path, "other").claim,
    ):
        with pytest.raises(ConfigError) as refused:
            attempt()
        assert str(refused.value) == refusal
    assert "part-0-4-w0.jsonl" in names(tmp_path)


def test_results_make_way_when_asked_to(tmp_path: Path):
    run = finished(tmp_path)
    (tmp_path / "_hailer" / "w1-1.unfinished").touch()
    check_free("sums", tmp_path, overwrite=True)
    directory = OutputDirectory("sums", tmp_path, "other", overwrite=True)
    directory.claim()
    assert names(tmp_path) == ["_hailer/complete.json", "_hailer/lock"]
    said = complete(tmp_path)
    assert (said["job"], said["complete"], said["ended"], said["files"]) == ("other", None, False, [])
    assert said["run"] != run
    directory.release()


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_of_others_are_never_removed(tmp_path: Path, overwrite: bool):
    finished(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match=r"has files that are no results of Hailer, such as notes\.txt; name another"):
        check_free("sums", tmp_path, overwrite=overwrite)


@pytest.mark.parametrize("overwrite", [False, True])
def test_two_runs_cannot_write_at_the_same_time(tmp_path: Path, overwrite: bool):
    first = OutputDirectory("totals", tmp_path, "counts")
    first.claim()
    refusal = f"{tmp_path} is being written by process {os.getpid()} on .*; let that job end, or name another directory"
    with pytest.raises(ConfigError, match=refusal):
        check_free("sums", tmp_path, overwrite=overwrite)
    second = OutputDirectory("sums", tmp_path, "other", overwrite=overwrite)
    with pytest.raises(ConfigError, match=refusal):
        second.claim()
    first.release()
    second.claim()
    second.release()


def test_a_run_that_showed_nothing_is_in_nobodys_way(tmp_path: Path):
    killed = OutputDirectory("totals", tmp_path / "new" / "out", "counts")
    killed.claim()
    killed.open_unfinished(0).close()
    killed.release()
    following = OutputDirectory("totals", tmp_path / "new" / "out", "counts")
    following.claim()
    assert names(tmp_path) == ["new/out/_hailer/complete.json", "new/out/_hailer/lock"]
    following.release()


def test_another_worker_uses_what_the_first_has_claimed(tmp_path: Path):
    first, other = (OutputDirectory("totals", tmp_path, "counts") for _ in range(2))
    first.claim()
    run = complete(tmp_path)["run"]
    other.show(other.open_unfinished(1), PartName(0, 0, 1))
    assert complete(tmp_path)["run"] == run
    assert "part-0-0-w1.jsonl" in names(tmp_path)
    first.release()


def test_a_worker_with_a_disk_of_its_own_does_not_mix_results_either(tmp_path: Path):
    fresh = OutputDirectory("totals", tmp_path / "fresh", "counts")
    fresh.show(fresh.open_unfinished(1), PartName(0, 0, 1))
    fresh.release()
    finished(tmp_path / "used")
    with pytest.raises(ConfigError, match="has the results of job 'counts'"):
        OutputDirectory("totals", tmp_path / "used", "counts", overwrite=True).open_unfinished(1)
    assert "part-0-4-w0.jsonl" in names(tmp_path / "used")


def test_what_cannot_be_written_names_output_and_path():
    with pytest.raises(OutputFailed, match="output 'totals' cannot write /proc/x/_hailer: No such file or directory"):
        OutputDirectory("totals", Path("/proc/x"), "counts").claim()
