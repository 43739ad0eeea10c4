"""The directory of compiled code.

numba's own cache is invalidated by a change of a function's file, not by one of the functions that it inlines. So the
directory is named after the source of this whole package: another version compiles again.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from framework.errors import ConfigError
from framework.ownership import exposed_parent, exposure, make_private

CACHE_VARIABLE = "HAILER_CACHE_DIR"


@cache
def cache_directory() -> Path:
    """The directory of this version's compiled code, writable by its user only, else a temporary one.

    numba loads cached code as pickles, so who can write there, or replace a directory on the way there, can run code.
    """
    directory = _chosen()
    with suppress(OSError):
        make_private(directory)
    return directory if _is_private(directory) else _temporary()


def existing_cache_directory() -> Path | None:
    """The directory, if another process has made it."""
    directory = _chosen()
    return directory if _is_private(directory) else None


def _is_private(directory: Path) -> bool:
    try:
        exposed = exposure(directory) or exposed_parent(directory)
    except OSError:
        return False
    return exposed is None and directory.is_dir() and os.access(directory, os.W_OK)


def _temporary() -> Path:
    """A directory that is removed when this process, not a fork of it, exits."""
    directory, process = Path(tempfile.mkdtemp(prefix="hailer-")), os.getpid()

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    return directory


def _chosen() -> Path:
    """The directory, without symbolic links, so that those who can be checked on the way to it are all there are."""
    return (_base() / _version()).resolve()


def _base() -> Path:
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    if caches := os.environ.get("XDG_CACHE_HOME"):
        return Path(caches) / "hailer"
    try:
        return Path.home() / ".cache" / "hailer"
    except RuntimeError as error:
        raise ConfigError(
            f"compiled code needs a directory, and this user has no home directory (HOME is not set); set "
            f"{CACHE_VARIABLE} to a directory that nobody else can write to"
        ) from error


@cache
def _version() -> str:
    digest = hashlib.sha256(version("numba").encode())
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
