"""The directory of compiled code.

numba's own cache is invalidated by a change of a function's file, not by one of the functions that it inlines. So the
directory is named after the source of this whole package: another version compiles again.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

CACHE_VARIABLE = "HAILER_CACHE_DIR"


@cache
def cache_directory() -> Path:
    """The directory of this version's compiled code, writable by its user only, else a temporary one.

    numba loads cached code as pickles, so who can write there can run code.
    """
    directory = _chosen()
    with suppress(OSError):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory if _is_private(directory) else Path(tempfile.mkdtemp(prefix="hailer-"))


def existing_cache_directory() -> Path | None:
    """The directory, if another process has made it."""
    directory = _chosen()
    return directory if _is_private(directory) else None


def _is_private(directory: Path) -> bool:
    try:
        owner = directory.stat()
    except OSError:
        return False
    return owner.st_uid == os.getuid() and not owner.st_mode & 0o022 and os.access(directory, os.W_OK)


def _chosen() -> Path:
    chosen = os.environ.get(CACHE_VARIABLE)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return (Path(chosen) if chosen else base / "hailer") / _version()


@cache
def _version() -> str:
    digest = hashlib.sha256(version("numba").encode())
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
