"""Locks of directories: a store's directory is its own, and those of dead processes are removed.

A locked directory holds a file `owner`, under an advisory lock (flock) that ends with its process, however it dies. A
store without a directory of its own gets a fresh one, `store-*` within a parent, which is removed when the store is
closed. A process that was killed leaves its directory behind; the next store in the same parent removes those that no
process of this machine holds. `exclusive` and `try_lock` serve other directories.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from framework.ownership import exposure, make_private
from routing.state.errors import StoreLocked, StoreUnusable

OWNER = "owner"
FRESH = "store-"
SWEEP_S_MAX = 60.0
"""How long others may take to remove what dead processes have left."""
POLL_S = 0.02


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
        descriptor = try_lock(path / OWNER)
        if descriptor is None:
            raise StoreLocked(
                f"the state in {path} is in use by {_owner(path) or 'another process'}; let that job end, or give each "
                f"store a directory of its own"
            )
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
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


@contextmanager
def exclusive(path: Path, *, mode: int = 0o600, within_s: float) -> Iterator[None]:
    """Hold the lock of a file, once no other process does; a new file has `mode`. Raises `TimeoutError`."""
    descriptor = _open_lock(path, mode)
    try:
        _lock(descriptor, path, within_s)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, within_s: float) -> None:
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline_s:
                text = f"another process has held {path} for {within_s:g} s"
                raise TimeoutError(errno.ETIMEDOUT, text) from None
            time.sleep(POLL_S)
        else:
            return


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock of a file, which is made if there is none; None if somebody else's does."""
    descriptor = _open_lock(path, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _open_lock(path: Path, mode: int) -> int:
    """Open a lock file, which its holder may truncate: so it must not be another file by a link of whatever kind."""
    no_lock = OSError(errno.EMLINK, f"{path.name!r} in it is no lock file, but a link; remove it", str(path))
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except OSError as error:
        raise no_lock if error.errno == errno.ELOOP else error from None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise no_lock
    return descriptor


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
    """Whether the store of this directory is gone for certain. Locks need not reach other machines."""
    try:
        owner = _owner(path)
    except PermissionError:  # another user's
        return False
    if owner and not owner.endswith(f" on {socket.gethostname()}"):
        return False
    try:
        lock = try_lock(path / OWNER)
    except OSError:  # its own process is just removing it, or it is another user's
        return False
    if lock is None:
        return False
    os.close(lock)
    return True


def _owner(path: Path) -> str:
    try:
        return (path / OWNER).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnusable(
            f"no state can be kept in {path}: {error.strerror}; give the store a directory that this process may write "
            f"to: RocksStore.maker(directory=...)"
        ) from error
