"""Locks of files between processes."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from framework.file_lock import boot_id, exclusive, holder, is_abandoned, is_held, take


def test_an_exclusive_lock_keeps_others_out_until_it_ends(tmp_path: Path):
    path = tmp_path / "lock"
    with exclusive(path, within_s=0.0), path.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_an_exclusive_lock_is_waited_for_only_so_long(tmp_path: Path):
    path = tmp_path / "lock"
    held = r"another process has held .*lock for 0.05 s"
    with exclusive(path, within_s=0.0), pytest.raises(TimeoutError, match=held), exclusive(path, within_s=0.05):
        raise AssertionError("two have it")


def test_an_exclusive_lock_ends_with_an_error_too(tmp_path: Path):
    path = tmp_path / "lock"
    with pytest.raises(ZeroDivisionError), exclusive(path, within_s=0.0):
        raise ZeroDivisionError
    with exclusive(path, within_s=0.0):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("lead", [Path.symlink_to, Path.hardlink_to])
def test_a_lock_follows_no_links_and_truncates_nothing(tmp_path: Path, lead: Callable[[Path, Path], None]):
    (tmp_path / "matters").write_text("much", encoding="utf-8")
    path = tmp_path / "lock"
    lead(path, tmp_path / "matters")
    with pytest.raises(OSError, match="is no lock file, but a link; remove it"), exclusive(path, within_s=0.0):
        pass
    with pytest.raises(OSError, match="is no lock file, but a link; remove it"):
        take(path)
    assert (tmp_path / "matters").read_text(encoding="utf-8") == "much"


def test_a_lock_that_is_taken_says_by_whom_and_is_free_when_they_are_gone(tmp_path: Path):
    path = tmp_path / "claim"
    assert (is_held(path), is_abandoned(path), holder(path)) == (False, True, "")
    lock = take(path)
    assert lock is not None
    assert take(path) is None
    assert (is_held(path), is_abandoned(path)) == (True, False)
    assert holder(path) == f"process {os.getpid()} on {socket.gethostname()}"
    os.close(lock)
    assert (is_held(path), is_abandoned(path)) == (False, True)


def test_nothing_stays_of_what_an_earlier_holder_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "claim"
    path.write_text(f"process 1 on another-machine\n{'x' * 1000}")
    lock = take(path)
    assert lock is not None
    os.close(lock)
    monkeypatch.setattr(socket, "gethostname", lambda: "another-container")
    assert is_abandoned(path), "it ran under this kernel"


@pytest.mark.parametrize(
    ("host", "boot", "gone"),
    [
        (socket.gethostname(), boot_id(), True),
        ("a-container-that-was", boot_id(), True),
        (socket.gethostname(), "before-this-machine-was-booted", True),
        ("another-machine", "its-own", False),
    ],
)
def test_a_free_lock_says_nothing_of_a_machine_that_locks_may_not_reach(
    tmp_path: Path, host: str, boot: str, gone: bool
):
    path = tmp_path / "claim"
    path.write_text(f"process 1 on {host}\n{boot}")
    assert is_abandoned(path) is gone


def test_looking_at_a_lock_keeps_nobody_else_from_looking(tmp_path: Path):
    path = tmp_path / "claim"
    lock = take(path)
    assert lock is not None
    os.close(lock)
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert not is_held(path)
