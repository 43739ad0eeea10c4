"""Locks of directories: a store's directory is its own, and those of dead processes are removed.

A locked directory holds a file `owner`, whose lock its process has taken (`framework.file_lock`). A store without a
directory of its own gets a fresh one, `store-*` within a parent, which is removed when the store is closed. A process
that was killed leaves its directory behind; the next store in the same parent removes those that are abandoned.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from framework.file_lock import exclusive, holder, is_abandoned, take
from framework.ownership import exposure, make_private
from routing.state.errors import StoreLocked, StoreUnusable

OWNER = "owner"
FRESH = "store-"
SWEEP_S_MAX = 60.0
"""How long others may take to remove what dead processes have left."""


@dataclass(frozen=True, slots=True)
class DirectoryLock:
    """A directory that one store has for itself, until `release`."""

    path: Path
    descriptor: int
    """That of the locked file."""
    temporary: bool

    def release(self) -> None:
        """Unlock the directory, which is removed first if it was made for this store only."""
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.descriptor)


def lock_directory(path: Path, *, temporary: bool = False) -> DirectoryLock:
    """Lock a directory, which is made if there is none."""
    with _translate_errors(path):
        make_private(path)
        _check_private(path)
        descriptor = take(path / OWNER)
        if descriptor is None:
            raise StoreLocked(
                f"the state in {path} is in use by {holder(path / OWNER) or 'another process'}; let that job end, or "
                f"give each store a directory of its own"
            )
        return DirectoryLock(path, descriptor, temporary)


def lock_fresh_directory(parent: Path | None) -> DirectoryLock:
    """Make and lock a directory in `parent`, by default one of this user's own among the temporary files."""
    parent = _private_parent() if parent is None else parent
    with _translate_errors(parent):
        make_private(parent)
        with exclusive(parent / ".lock", within_s=SWEEP_S_MAX):  # a directory that was just made is not locked yet
            for path in parent.glob(f"{FRESH}*"):
                if _is_dead(path):
                    shutil.rmtree(path, ignore_errors=True)
            return lock_directory(Path(tempfile.mkdtemp(prefix=FRESH, dir=parent)), temporary=True)


def _check_private(path: Path) -> None:
    exposed = exposure(path.resolve())
    if exposed is not None:
        raise StoreUnusable(
            f"no state can be kept in {path}: {exposed}; close it with `chmod go-w {path}`, or give the store a "
            f"directory of this user's"
        )


def _private_parent() -> Path:
    parent = Path(tempfile.gettempdir()) / f"hailer-{os.getuid()}"
    with _translate_errors(parent):
        parent.mkdir(mode=0o700, exist_ok=True)
        found = parent.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise StoreUnusable(
            f"{parent} should hold the state of this user's jobs, but others made it or may enter it; remove it, or "
            f"give the store a directory: RocksStore.maker(directory=...)"
        )
    return parent


def _is_dead(path: Path) -> bool:
    """Whether the store of this directory is gone for certain."""
    try:
        return is_abandoned(path / OWNER)
    except OSError:  # another user's
        return False


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnusable(
            f"no state can be kept in {path}: {error.strerror}; give the store a directory that this process may write "
            f"to: RocksStore.maker(directory=...)"
        ) from error
