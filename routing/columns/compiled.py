"""The decorators of kernels, which numba compiles, and the directory of their compiled code.

numba's own cache is invalidated by a change of a function's file, not by one of the functions that it inlines. So the
cache directory is named after the source of this whole package: another version compiles again.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any

import numba

CACHE_VARIABLE = "HAILER_CACHE_DIR"


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` when it is first called, and cache it; it runs without the GIL."""
    with caching():
        return numba.njit(cache=True, nogil=True, error_model="python")(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Inline `function` into the kernels that call it."""
    return numba.njit(nogil=True, error_model="python", forceinline=True)(function)


compiling = RLock()
"""Held while source is rewritten and compiled: neither Python's parser nor numba's configuration is thread-safe, and
the workers of a process build their dataflows concurrently."""


@contextmanager
def caching() -> Iterator[None]:
    """Point numba's cache at our directory, for what is decorated meanwhile."""
    config: Any = numba.config
    with compiling:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(cache_directory())
        try:
            yield
        finally:
            config.CACHE_DIR = before


@cache
def cache_directory() -> Path:
    """The directory of this version's compiled code, writable by its user only, else a temporary one.

    numba loads cached code as pickles, so who can write there can run code.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    directory = (Path(chosen) if chosen else base / "hailer") / _version()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = directory.stat()
        if owner.st_uid == os.getuid() and not owner.st_mode & 0o022 and os.access(directory, os.W_OK):
            return directory
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="hailer-"))


def _version() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
