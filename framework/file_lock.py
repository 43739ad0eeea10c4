"""Advisory locks of files (flock): each ends with the process that holds it, however that dies.

A process that holds a lock for as long as it lives `take`s it, and writes into the file who it is. A directory may be
shared with other machines, which locks need not reach. So that the lock is free tells that its last holder is gone only
if that ran under this kernel, whatever host names containers have, or on this machine before it was booted.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

POLL_S = 0.02


def take(path: Path) -> int | None:
    """A descriptor that holds the lock of a file, which is made if there is none; None if another process holds it."""
    descriptor = _open(path, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n{boot_id()}".encode())
    return descriptor


@contextmanager
def exclusive(path: Path, *, mode: int = 0o600, within_s: float) -> Iterator[None]:
    """Hold the lock of a file, once no other process does; a new file has `mode`. Raises `TimeoutError`."""
    descriptor = _open(path, mode)
    try:
        _lock(descriptor, path, within_s)
        yield
    finally:
        os.close(descriptor)


def holder(path: Path) -> str:
    """Which process took the lock last; empty if none has."""
    return _holder(path)[0]


def is_held(path: Path) -> bool:
    """Whether a process that locks reach holds the lock of a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return False
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def is_abandoned(path: Path) -> bool:
    """Whether the process that took the lock of a file is gone for certain, or none has."""
    if is_held(path):
        return False
    process, boot = _holder(path)
    return not process or boot == boot_id() or process.endswith(f" on {socket.gethostname()}")


def _holder(path: Path) -> tuple[str, str]:
    with suppress(FileNotFoundError):
        process, _, boot = path.read_text(encoding="utf-8", errors="replace").partition("\n")
        return process, boot
    return "", ""


def boot_id() -> str:
    """What tells this kernel, since it was booted, from all others; empty where the system does not say."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


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


def _open(path: Path, mode: int) -> int:
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
