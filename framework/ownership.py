"""Whether other users can change a file or directory that this process trusts, and directories that they cannot.

Who may write to a directory decides what its entries are, whoever owns these; in a sticky one, such as `/tmp`, only an
entry's owner may replace it. This user and root are trusted. A group is not, since it may have members.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

GROUP_AND_OTHERS_WRITE = 0o022


def exposure(path: Path) -> str | None:
    """How others can change what is at `path`, a link not being followed; None if they cannot."""
    return exposure_of(path.lstat())


def exposure_of(found: os.stat_result) -> str | None:
    """The same of what was found there."""
    if found.st_uid not in (0, os.getuid()):
        return f"it belongs to user {found.st_uid}"
    if stat.S_ISLNK(found.st_mode):
        return "it is a symbolic link"
    mode = stat.S_IMODE(found.st_mode)
    if mode & GROUP_AND_OTHERS_WRITE and not (stat.S_ISDIR(found.st_mode) and mode & stat.S_ISVTX):
        return f"others can write to it (mode {mode:o})"
    return None


def exposed_parent(path: Path) -> Path | None:
    """The first directory on the way to a resolved path in which others can replace an entry, if there is one."""
    return next((parent for parent in reversed(path.parents) if exposure(parent)), None)


def make_private(directory: Path) -> None:
    """Make a directory, and those on the way to it that are missing, for this user alone, whatever the umask is."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    if not directory.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(directory))


def read_private(path: Path) -> str:
    """The text of a file that others cannot change, or `PermissionError` that says how they can."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), encoding="utf-8") as file:
        fault = exposure_of(os.fstat(file.fileno()))
        if fault is not None:
            raise PermissionError(errno.EPERM, fault, str(path))
        return file.read()
