"""Locks of directories between processes; those of stores are in `test_store`."""

from __future__ import annotations

import fcntl
import stat
from pathlib import Path

import pytest

from routing.state.directory_lock import exclusive


def test_an_exclusive_lock_keeps_others_out_until_it_ends(tmp_path: Path):
    path = tmp_path / "lock"
    with exclusive(path), path.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_an_exclusive_lock_ends_with_an_error_too(tmp_path: Path):
    path = tmp_path / "lock"
    with pytest.raises(ZeroDivisionError), exclusive(path):
        raise ZeroDivisionError
    with exclusive(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
