"""Jobs are found by the directory that they were started in."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from operators.admin import run_directory
from operators.admin.errors import NoSuchJob, RunDirectoryUnusable
from operators.admin.run_directory import (
    FOLDER,
    EndedJob,
    JobFolder,
    RunningJob,
    claim,
    find_job,
    how_it_ended,
    is_running,
    running_jobs,
)
from tests.unit.foreign import give_away


def start(directory: Path, name: str, port: int = 1) -> str:
    claimed = claim(directory, name)
    claimed.publish(host="127.0.0.1", port=port, started_s=0.0)
    return claimed.name


def kill(claimed: JobFolder) -> None:
    """Its process dies: the system closes what it had open."""
    os.close(claimed.lock)


def test_a_job_is_found_with_its_token_while_it_runs(tmp_path: Path):
    claimed = claim(tmp_path, "wordcount")
    assert running_jobs(tmp_path) == []
    claimed.publish(host="127.0.0.1", port=4321, started_s=5.0)
    job = RunningJob("wordcount", "127.0.0.1", 4321, os.getpid(), claimed.run, 5.0)
    assert find_job(tmp_path, None) == find_job(tmp_path, "wordcount") == (job, claimed.token)
    claimed.release()
    assert running_jobs(tmp_path) == []
    with pytest.raises(NoSuchJob, match=r"no job runs in .*; start one with `hailer run"):
        find_job(tmp_path, None)


@pytest.mark.parametrize("report", [None, "job failed: operator 'count' failed"])
def test_how_a_job_ended_is_kept_for_who_knew_it_until_the_next_of_its_name(tmp_path: Path, report: str | None):
    claimed = claim(tmp_path, "words")
    claimed.publish(host="127.0.0.1", port=1, started_s=0.0)
    job, _ = find_job(tmp_path, None)
    assert how_it_ended(tmp_path, job) is None
    claimed.tell_end(report, "words ended after 3.2 s")
    claimed.release()
    assert how_it_ended(tmp_path, job) == EndedJob(job.run, report or "", "words ended after 3.2 s")
    assert how_it_ended(tmp_path, replace(job, run="another")) is None
    left = {path.name: stat.S_IMODE(path.stat().st_mode) for path in claimed.folder.iterdir()}
    assert left == {"ended.json": 0o600, "claim": 0o600}
    assert running_jobs(tmp_path) == []
    assert start(tmp_path, "words") == "words"
    assert how_it_ended(tmp_path, job) is None


def test_only_its_owner_can_read_the_token_and_git_ignores_it(tmp_path: Path):
    claimed = claim(tmp_path, "wordcount")
    assert stat.S_IMODE((claimed.folder / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(claimed.folder.stat().st_mode) == 0o700
    assert (tmp_path / FOLDER / ".gitignore").read_text() == "*\n"
    assert len(claimed.token) >= 32


def test_a_lock_that_somebody_keeps_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_directory, "LOCK_S_MAX", 0.05)
    start(tmp_path, "words")
    with (tmp_path / FOLDER / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        with pytest.raises(RunDirectoryUnusable, match=r"another process has held .*/\.hailer/lock for 0\.05 s"):
            claim(tmp_path, "orders")
    assert start(tmp_path, "orders") == "orders"


def test_of_several_jobs_one_has_to_be_named(tmp_path: Path):
    assert [start(tmp_path, "orders", 1), start(tmp_path, "orders", 2), start(tmp_path, "words", 3)] == [
        "orders",
        "orders-2",
        "words",
    ]
    with pytest.raises(NoSuchJob, match=r"3 jobs run in .*: orders, orders-2, words; say which one: --job orders"):
        find_job(tmp_path, None)
    assert find_job(tmp_path, "orders-2")[0].port == 2
    with pytest.raises(NoSuchJob, match=r"no job 'wrods' runs .* are orders, .*; did you mean 'words'\?"):
        find_job(tmp_path, "wrods")


def test_what_a_killed_job_left_makes_way(tmp_path: Path):
    claimed = claim(tmp_path, "words")
    claimed.publish(host="127.0.0.1", port=1, started_s=0.0)
    job, _ = find_job(tmp_path, None)
    kill(claimed)
    assert running_jobs(tmp_path) == []
    assert not is_running(tmp_path, job)
    assert start(tmp_path, "words", 2) == "words"
    assert [job.port for job in running_jobs(tmp_path)] == [2]
    assert not is_running(tmp_path, job)


def test_so_does_what_one_left_in_a_container_of_another_name(tmp_path: Path):
    claimed = claim(tmp_path, "words")
    kill(claimed)
    text = (claimed.folder / "claim").read_text()
    (claimed.folder / "claim").write_text(text.replace(platform.node(), "elsewhere"))
    assert start(tmp_path, "words", 2) == "words"


def test_what_another_machine_claims_is_its_own(tmp_path: Path):
    """Its locks may not reach here."""
    kill(claim(tmp_path, "words"))
    (tmp_path / FOLDER / "words" / "claim").write_text("process 1 on elsewhere\nanother boot")
    assert running_jobs(tmp_path) == []
    assert start(tmp_path, "words", 2) == "words-2"


def test_a_job_whose_loopback_is_another_is_not_mistaken_for_one_here(tmp_path: Path):
    start(tmp_path, "words")
    path = tmp_path / FOLDER / "words" / "job.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "machine": "elsewhere", "network": "another"}))
    with pytest.raises(NoSuchJob, match="'words' runs on elsewhere, in another machine or container, and is steered"):
        find_job(tmp_path, None)


@pytest.mark.parametrize(
    ("name", "folder"), [("../up", "up"), ("a b/c", "a-b-c"), ("...", "job"), ("tägliche", "tägliche")]
)
def test_a_name_becomes_a_folder_within_the_run_directory(tmp_path: Path, name: str, folder: str):
    claimed = claim(tmp_path, name)
    assert claimed.folder == tmp_path / FOLDER / folder


def test_a_file_that_is_not_ours_is_passed_over(tmp_path: Path):
    start(tmp_path, "words")
    for number, text in enumerate(["", "[]", '{"name": 1}', "\x00"]):
        other = tmp_path / FOLDER / f"other{number}"
        other.mkdir()
        (other / "job.json").write_text(text)
    assert [job.name for job in running_jobs(tmp_path)] == ["words"]


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / FOLDER).write_text("in the way")
    with pytest.raises(RunDirectoryUnusable, match="cannot be written"):
        claim(tmp_path, "words")


@pytest.mark.parametrize("of", [".", "counts", "counts/job.json", "counts/token"])
def test_what_others_can_change_is_not_believed(of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    start(tmp_path, "counts")
    path = tmp_path / FOLDER / of
    mode = stat.S_IMODE(path.stat().st_mode)
    path.chmod(mode | 0o020)
    with pytest.raises(RunDirectoryUnusable, match=f"others can write to it.*chmod go-w {path.resolve()}"):
        find_job(tmp_path, None)
    path.chmod(mode)
    find_job(tmp_path, None)
    give_away(path, monkeypatch)
    with pytest.raises(RunDirectoryUnusable, match="it belongs to user"):
        find_job(tmp_path, None)


def test_a_job_claims_no_folder_where_others_can_write(tmp_path: Path):
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER).chmod(0o777)
    with pytest.raises(RunDirectoryUnusable, match="mode 777"):
        claim(tmp_path, "counts")


def test_the_lock_of_a_run_directory_may_not_lead_to_another_file(tmp_path: Path):
    (tmp_path / "matters").write_text("much")
    (tmp_path / FOLDER).mkdir(mode=0o755)
    (tmp_path / FOLDER / "lock").symlink_to(tmp_path / "matters")
    with pytest.raises(RunDirectoryUnusable, match="'lock' in it is no lock file, but a link; remove it"):
        claim(tmp_path, "counts")
    assert (tmp_path / "matters").read_text() == "much"
