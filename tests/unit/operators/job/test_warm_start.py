"""What a job has loaded is noted beside the compiled code, and loaded by another process before it builds the job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from linecache import checkcache
from pathlib import Path

import pytest

from framework.launch.execute import execute
from framework.worker.worker import Worker
from operators.job.job import Job
from operators.job.warm_start import load_noted, note_loaded
from routing.columns.cache_directory import cache_directory, existing_cache_directory

PROGRAM = Path(__file__).with_name("warm_job.py")


@pytest.fixture
def job() -> Job:
    return Job.load(PROGRAM)


@pytest.fixture
def note(job: Job) -> Path:
    path = cache_directory() / f"job_{job.digest()}.json"
    path.unlink(missing_ok=True)
    return path


def test_who_builds_a_job_of_columns_that_another_has_built_has_loaded_all_before(job: Job, note: Path):
    def build(worker: Worker) -> None:
        job.build(worker, lambda _: lambda epoch, records: None)
        note_loaded(job)

    assert not load_noted(job)
    execute(build)
    assert note.exists()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    said = subprocess.run([sys.executable, PROGRAM], env=env, capture_output=True, check=True, text=True).stdout
    assert said.splitlines() == ["true", "[]"]


def test_names_that_are_not_ours_or_not_there_are_skipped(job: Job, note: Path):
    evil = note.parent / "evil.py"
    evil.write_text("raise AssertionError('it ran')")
    names = {
        "modules": ["evil", "os.path", "operators.nothing_of_this_name"],
        "generated": ["evil", "../evil", "fold_" + 24 * "0"],
        "kernels": [["routing.columns.table.entries", "insert", "0"], ["evil", "evil", "0"]],
    }
    note.write_text(json.dumps(names))
    try:
        assert load_noted(job)
    finally:
        note.unlink()
        evil.unlink()


def test_a_job_is_another_one_when_its_source_is(tmp_path: Path):
    def another(text: str) -> Job:
        (tmp_path / "job.py").write_text(f"from hailer import Job\njob = Job('lengths')\njob.dataflow({text})\n")
        checkcache()
        return Job.load(tmp_path / "job.py")

    first, again = another("lambda flow: 1").digest(), another("lambda flow: 1").digest()
    assert first == again
    assert another("lambda flow: 2").digest() != first


def test_no_directory_is_made_to_look_for_a_note(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HAILER_CACHE_DIR", str(tmp_path / "cache"))
    assert existing_cache_directory() is None
    assert not load_noted(job)
    assert not (tmp_path / "cache").exists()
