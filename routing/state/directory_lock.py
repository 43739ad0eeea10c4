"""Directories for stores: each belongs to one store, and those of dead processes are cleared away.

A claimed directory holds a file `owner`, locked for as long as its process lives, however it dies. What a store makes
for itself is a fresh directory `store-*` within a parent, removed when the store is closed. A process that was killed
leaves its own behind; whoever next makes a store in the same parent removes what no process of this machine holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from routing.state.errors import StoreLocked, StoreUnusable

OWNER = "owner"
FRESH = "store-"


@dataclass(frozen=True, slots=True)
class Claim:
    """A directory that one store has for itself, until `release`."""

    path: Path
    lock: int
    """The descriptor of the locked file."""
    temporary: bool

    def release(self) -> None:
        """Let others have it, or nobody if it was made for this store only."""
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def claim(path: Path, *, temporary: bool = False) -> Claim:
    """Claim a directory, which is made if there is none."""
    with _named(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _lock(path / OWNER)
        if lock is None:
            raise StoreLocked(
                f"the state in {path} is in use by {_owner(path) or 'another process'}; let that job end, or give each "
                f"store a directory of its own"
            )
        os.ftruncate(lock, 0)
        os.write(lock, f"process {os.getpid()} on {socket.gethostname()}".encode())
        return Claim(path, lock, temporary)


def claim_fresh(parent: Path | None) -> Claim:
    """Claim a new directory within `parent`, by default one of this user's own among the temporary files."""
    parent = _private_parent() if parent is None else parent
    with _named(parent):
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(parent / ".lock"):
            for path in parent.glob(f"{FRESH}*"):
                if _is_dead(path):
                    shutil.rmtree(path, ignore_errors=True)
            return claim(Path(tempfile.mkdtemp(prefix=FRESH, dir=parent)), temporary=True)


def _private_parent() -> Path:
    parent = Path(tempfile.gettempdir()) / f"hailer-{os.getuid()}"
    with _named(parent):
        parent.mkdir(mode=0o700, exist_ok=True)
        found = parent.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise StoreUnusable(
            f"{parent} should hold the state of this user's jobs, but others made it or may enter it; remove it, or "
            f"give the store a directory: RocksStore.maker(directory=...)"
        )
    return parent


def _lock(path: Path) -> int | None:
    """A descriptor that holds the lock of a file, or None if somebody else's does."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until nobody else makes or clears directories: a new one is not locked yet."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_dead(path: Path) -> bool:
    """Whether the store of this directory is gone for certain. Locks need not reach other machines."""
    owner = _owner(path)
    if owner and not owner.endswith(f" on {socket.gethostname()}"):
        return False
    try:
        lock = _lock(path / OWNER)
    except FileNotFoundError:  # its own process is just removing it
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
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnusable(
            f"no state can be kept in {path}: {error.strerror}; give the store a directory that this process may write "
            f"to: RocksStore.maker(directory=...)"
        ) from error
